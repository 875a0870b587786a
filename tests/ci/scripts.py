"""Writes the shell scripts of GitLab pipelines to files, a file for each job, for a linter of shell scripts.

    scripts.py DIR PIPELINE...
"""

import pathlib
import sys

import yaml


class Reference:
    """`!reference [job, key]`: what it refers to may be in another file, and is checked there."""


yaml.SafeLoader.add_constructor("!reference", lambda loader, node: Reference())

target = pathlib.Path(sys.argv[1])
target.mkdir(parents=True)
for pipeline in sys.argv[2:]:
    jobs = yaml.safe_load(pathlib.Path(pipeline).read_text(encoding="utf-8"))
    for name, job in jobs.items():
        if not isinstance(job, dict):
            continue
        # before_script and script run in one shell, after_script in one of its own.
        for part in (["before_script", "script"], ["after_script"]):
            lines = [line for key in part for line in job.get(key, []) if isinstance(line, str)]
            if lines:
                file = f"{pipeline.strip('/').replace('/', '-')}:{name}:{part[-1]}"
                (target / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
