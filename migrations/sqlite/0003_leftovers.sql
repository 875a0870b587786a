-- Where the Terraform of a run works, so that a run that was cut off can be told from one that is still being worked on,
-- and what it left can be found.

-- Where a run applies. Forgotten when the run's own record of what it did is complete.
CREATE TABLE run_workplaces (
    run_id TEXT PRIMARY KEY NOT NULL REFERENCES runs (id), -- the run
    host TEXT NOT NULL,                         -- the machine, as JSON: name, machine, boot, processes (the PID namespace)
    dir TEXT NOT NULL,                          -- the work directory on that machine
    process_group INTEGER,                      -- the process group of the apply; null until it runs
    group_started INTEGER,                      -- when that group's leader started, in clock ticks since the machine did
    slice_serial INTEGER NOT NULL,              -- the serial of the trunk that the slice was cut from
    recorded_at INTEGER NOT NULL                -- when
) STRICT;

ALTER TABLE run_checkpoints ADD COLUMN slice_serial INTEGER; -- the serial of the trunk that the slice was cut from; null: not known
