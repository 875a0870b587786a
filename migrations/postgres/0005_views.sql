-- Views for people, with names in the place of ids; docs/queries.md has examples. The same views and columns as in
-- migrations/sqlite/0005_views.sql.

-- Pages of runs, of one state and of all, each by one step into an index.
DROP INDEX runs_state;
CREATE INDEX runs_state ON runs (state_id, started_at, id);
CREATE INDEX runs_time ON runs (started_at, id);

CREATE VIEW current_resources AS
SELECT s.name AS state, r.address, r.kind, r.qualifier, r.module_path, r.resource_key, r.mode, r.type, r.name,
       r.from_serial AS serial, v.committed_at AS changed_at, v.actor, v.source,
       v.origin ->> 'forge' AS forge, v.origin ->> 'repository' AS repository,
       CAST(v.origin ->> 'request' AS bigint) AS request, v.run_id, v.spec_id
FROM resources r
JOIN states s ON s.id = r.state_id
JOIN state_versions v ON v.state_id = r.state_id AND v.serial = r.from_serial
WHERE r.to_serial IS NULL;

COMMENT ON VIEW current_resources IS 'The trunk of every state: each row as it is now, and who made it so.';
COMMENT ON COLUMN current_resources.state IS 'the name of the state';
COMMENT ON COLUMN current_resources.address IS 'Terraform''s text for it; output.NAME for an output';
COMMENT ON COLUMN current_resources.kind IS 'object (a resource instance), output, check, or husk (a resource without instances)';
COMMENT ON COLUMN current_resources.qualifier IS 'the deposed key of an object, the object kind of a check; else empty';
COMMENT ON COLUMN current_resources.module_path IS 'the module instance that holds it; empty for the root';
COMMENT ON COLUMN current_resources.resource_key IS 'the address without any instance key; null for outputs and checks';
COMMENT ON COLUMN current_resources.mode IS 'managed or data; null for outputs and checks';
COMMENT ON COLUMN current_resources.type IS 'the resource type; null for outputs and checks';
COMMENT ON COLUMN current_resources.name IS 'the name of the block or output; null for checks';
COMMENT ON COLUMN current_resources.serial IS 'the serial since when it has this content';
COMMENT ON COLUMN current_resources.changed_at IS 'when that version was committed';
COMMENT ON COLUMN current_resources.actor IS 'who made that version';
COMMENT ON COLUMN current_resources.source IS 'how that version came to be: apply, refresh, import or recover';
COMMENT ON COLUMN current_resources.forge IS 'github or gitlab; null outside CI';
COMMENT ON COLUMN current_resources.repository IS 'owner/name on the forge';
COMMENT ON COLUMN current_resources.request IS 'the number of the pull or merge request';
COMMENT ON COLUMN current_resources.run_id IS 'the run that made that version';
COMMENT ON COLUMN current_resources.spec_id IS 'the spec that the run applied';

CREATE VIEW resource_changes AS
SELECT s.name AS state, c.address, c.kind, c.qualifier, c.serial, c.change, v.committed_at AS changed_at, v.actor,
       v.source, v.origin ->> 'forge' AS forge, v.origin ->> 'repository' AS repository,
       CAST(v.origin ->> 'request' AS bigint) AS request, v.run_id, v.spec_id
FROM (
    SELECT r.state_id, r.address, r.kind, r.qualifier, r.from_serial AS serial,
           CASE WHEN EXISTS (SELECT 1 FROM resources q WHERE q.state_id = r.state_id AND q.row_key = r.row_key
                                                         AND q.to_serial = r.from_serial)
                THEN 'changed' ELSE 'created' END AS change
    FROM resources r
    UNION ALL
    SELECT r.state_id, r.address, r.kind, r.qualifier, r.to_serial, 'removed'
    FROM resources r
    WHERE r.to_serial IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM resources q WHERE q.state_id = r.state_id AND q.row_key = r.row_key
                                                  AND q.from_serial = r.to_serial)
) c
JOIN states s ON s.id = c.state_id
JOIN state_versions v ON v.state_id = c.state_id AND v.serial = c.serial;

COMMENT ON VIEW resource_changes IS 'The life of every row: each change that a version made to it. What `kl gc` has removed is missing.';
COMMENT ON COLUMN resource_changes.state IS 'the name of the state';
COMMENT ON COLUMN resource_changes.address IS 'Terraform''s text for it; output.NAME for an output';
COMMENT ON COLUMN resource_changes.kind IS 'object, output, check or husk';
COMMENT ON COLUMN resource_changes.qualifier IS 'the deposed key of an object, the object kind of a check; else empty';
COMMENT ON COLUMN resource_changes.serial IS 'the version that made the change';
COMMENT ON COLUMN resource_changes.change IS 'created, changed or removed';
COMMENT ON COLUMN resource_changes.changed_at IS 'when the version was committed';
COMMENT ON COLUMN resource_changes.actor IS 'who made it';
COMMENT ON COLUMN resource_changes.source IS 'how it came to be: apply, refresh, import or recover';
COMMENT ON COLUMN resource_changes.forge IS 'github or gitlab; null outside CI';
COMMENT ON COLUMN resource_changes.repository IS 'owner/name on the forge';
COMMENT ON COLUMN resource_changes.request IS 'the number of the pull or merge request';
COMMENT ON COLUMN resource_changes.run_id IS 'the run that made it';
COMMENT ON COLUMN resource_changes.spec_id IS 'the spec that the run applied';

-- jsonb, and json when it reads a text out, refuse \u0000. It may read as another letter here.
CREATE VIEW run_overview AS
SELECT r.id AS run_id, s.name AS state, r.kind, r.status, r.actor, r.forge, r.repository, r.request,
       r.origin ->> 'job_url' AS job_url, r.spec_id, r.started_at, r.ended_at,
       CAST(EXTRACT(EPOCH FROM r.ended_at - r.started_at) AS double precision) AS seconds,
       r.source_serial, r.result_serial, v.rows_opened, v.rows_closed,
       (SELECT CASE e.kind WHEN 'stale_check_passed' THEN 'passed' ELSE 'changed' END FROM run_events e
        WHERE e.run_id = r.id AND e.kind IN ('stale_check_passed', 'stale_check_failed')
        ORDER BY e.seq DESC LIMIT 1) AS stale_check,
       (SELECT CAST(json_array_length(replace(CAST(e.event AS text), '\u0000', '\ufffd')::json -> 'beside') AS bigint)
        FROM run_events e WHERE e.run_id = r.id AND e.kind = 'reserved' ORDER BY e.seq DESC LIMIT 1) AS beside,
       (SELECT replace(CAST(e.event AS text), '\u0000', '\ufffd')::json ->> 'lane'
        FROM run_events e WHERE e.run_id = r.id AND e.kind = 'lane_chosen' ORDER BY e.seq DESC LIMIT 1) AS lane,
       (SELECT replace(CAST(e.event AS text), '\u0000', '\ufffd')::json ->> 'relation'
        FROM run_events e WHERE e.run_id = r.id AND e.kind = 'replanned' ORDER BY e.seq DESC LIMIT 1) AS replan,
       r.error
FROM runs r
JOIN states s ON s.id = r.state_id
LEFT JOIN state_versions v ON v.state_id = r.state_id AND v.serial = r.result_serial;

COMMENT ON VIEW run_overview IS 'Every run with what matters of its timeline.';
COMMENT ON COLUMN run_overview.run_id IS 'the run''s id, a UUID that grows with time';
COMMENT ON COLUMN run_overview.state IS 'the name of the state';
COMMENT ON COLUMN run_overview.kind IS 'apply, refresh, import or recover';
COMMENT ON COLUMN run_overview.status IS 'started, waiting, reserved, applying; ends: committed, noop, dry_run, failed, conflict, stale, lost, aborted';
COMMENT ON COLUMN run_overview.actor IS 'who ran it';
COMMENT ON COLUMN run_overview.forge IS 'github or gitlab; null outside CI';
COMMENT ON COLUMN run_overview.repository IS 'owner/name on the forge';
COMMENT ON COLUMN run_overview.request IS 'the number of the pull or merge request';
COMMENT ON COLUMN run_overview.job_url IS 'the job''s page';
COMMENT ON COLUMN run_overview.spec_id IS 'the spec that it applies';
COMMENT ON COLUMN run_overview.started_at IS 'when it began';
COMMENT ON COLUMN run_overview.ended_at IS 'when it ended; null while it is live';
COMMENT ON COLUMN run_overview.seconds IS 'how long it took; null while it is live';
COMMENT ON COLUMN run_overview.source_serial IS 'the serial that its plan was made from';
COMMENT ON COLUMN run_overview.result_serial IS 'the serial that it committed';
COMMENT ON COLUMN run_overview.rows_opened IS 'rows of that version that are new or got a new content';
COMMENT ON COLUMN run_overview.rows_closed IS 'rows of that version whose former content ended';
COMMENT ON COLUMN run_overview.stale_check IS 'passed, or changed: rows that it reads or writes changed since its plan; null when it was not made';
COMMENT ON COLUMN run_overview.beside IS 'how many other runs were live when its reservations were granted';
COMMENT ON COLUMN run_overview.lane IS 'narrow or footprint';
COMMENT ON COLUMN run_overview.replan IS 'how planning again compared with the spec: identical, refined, values_differ or shape_differs';
COMMENT ON COLUMN run_overview.error IS 'why it failed, in a sentence without secrets';

CREATE VIEW run_conflicts AS
SELECT r.id AS run_id, s.name AS state, r.actor,
       b.value #>> '{reservation,claim,pattern}' AS pattern, b.value #>> '{reservation,claim,mode}' AS mode,
       b.value #>> '{reservation,held_as}' AS held_as,
       b.value #>> '{reservation,holder}' AS holder, b.value #>> '{reservation,run}' AS holder_run_id
FROM runs r
JOIN states s ON s.id = r.state_id
CROSS JOIN LATERAL json_array_elements(replace(CAST(r.conflict AS text), '\u0000', '\ufffd')::json) AS b (value);

COMMENT ON VIEW run_conflicts IS 'What stood in the way of each run that was refused, as it stood then.';
COMMENT ON COLUMN run_conflicts.run_id IS 'the run that was refused';
COMMENT ON COLUMN run_conflicts.state IS 'the name of the state';
COMMENT ON COLUMN run_conflicts.actor IS 'who ran it';
COMMENT ON COLUMN run_conflicts.pattern IS 'the reservation in the way';
COMMENT ON COLUMN run_conflicts.mode IS 'read or write';
COMMENT ON COLUMN run_conflicts.held_as IS 'run, quarantine or lock';
COMMENT ON COLUMN run_conflicts.holder IS 'who held it, or waited for it earlier';
COMMENT ON COLUMN run_conflicts.holder_run_id IS 'the run that did';

CREATE VIEW reservation_overview AS
SELECT s.name AS state, v.pattern, v.mode,
       CASE WHEN v.held_as = 'quarantine' THEN 'quarantined' WHEN v.held_as = 'lock' THEN 'locked'
            WHEN v.acquired_at IS NULL THEN 'waiting' ELSE 'held' END AS standing,
       r.actor, r.forge, r.repository, r.request, v.run_id, r.status AS run_status, v.ticket, v.asked_at, v.acquired_at,
       v.expires_at
FROM resource_reservations v
JOIN runs r ON r.id = v.run_id
JOIN states s ON s.id = v.state_id
WHERE v.released_at IS NULL;

COMMENT ON VIEW reservation_overview IS 'Every reservation that stands now, and who is behind it.';
COMMENT ON COLUMN reservation_overview.state IS 'the name of the state';
COMMENT ON COLUMN reservation_overview.pattern IS 'the rows that it covers: *, module.NAME.*, a resource, an instance, or output.NAME';
COMMENT ON COLUMN reservation_overview.mode IS 'read or write';
COMMENT ON COLUMN reservation_overview.standing IS 'held, waiting (for its turn), quarantined (`kl recover` frees it) or locked (by a plain terraform)';
COMMENT ON COLUMN reservation_overview.actor IS 'who ran the run';
COMMENT ON COLUMN reservation_overview.forge IS 'github or gitlab; null outside CI';
COMMENT ON COLUMN reservation_overview.repository IS 'owner/name on the forge';
COMMENT ON COLUMN reservation_overview.request IS 'the number of the pull or merge request';
COMMENT ON COLUMN reservation_overview.run_id IS 'the run that holds it or waits for it';
COMMENT ON COLUMN reservation_overview.run_status IS 'where the run stands';
COMMENT ON COLUMN reservation_overview.ticket IS 'the place in the queue: lower asked earlier';
COMMENT ON COLUMN reservation_overview.asked_at IS 'when it was asked for';
COMMENT ON COLUMN reservation_overview.acquired_at IS 'when it was granted; null while it waits';
COMMENT ON COLUMN reservation_overview.expires_at IS 'when the lease, or the place in the queue, ends unless renewed; null: never';

CREATE VIEW version_overview AS
SELECT s.name AS state, v.serial, v.source_serial, v.committed_at, v.actor,
       v.origin ->> 'forge' AS forge, v.origin ->> 'repository' AS repository,
       CAST(v.origin ->> 'request' AS bigint) AS request, v.run_id, v.spec_id, p.actor AS planned_by, v.source, v.mode,
       v.rows_opened, v.rows_closed
FROM state_versions v
JOIN states s ON s.id = v.state_id
LEFT JOIN plan_specs p ON p.id = v.spec_id;

COMMENT ON VIEW version_overview IS 'The versions of each state with their names resolved: who, from which request, by which run and spec.';
COMMENT ON COLUMN version_overview.state IS 'the name of the state';
COMMENT ON COLUMN version_overview.serial IS 'the version''s serial';
COMMENT ON COLUMN version_overview.source_serial IS 'the serial that the run''s plan was made from';
COMMENT ON COLUMN version_overview.committed_at IS 'when';
COMMENT ON COLUMN version_overview.actor IS 'who';
COMMENT ON COLUMN version_overview.forge IS 'github or gitlab; null outside CI';
COMMENT ON COLUMN version_overview.repository IS 'owner/name on the forge';
COMMENT ON COLUMN version_overview.request IS 'the number of the pull or merge request';
COMMENT ON COLUMN version_overview.run_id IS 'the run that made it';
COMMENT ON COLUMN version_overview.spec_id IS 'the spec that the run applied';
COMMENT ON COLUMN version_overview.planned_by IS 'who planned that spec';
COMMENT ON COLUMN version_overview.source IS 'how it came to be: apply, refresh, import or recover';
COMMENT ON COLUMN version_overview.mode IS 'how it was written: row-delta or snapshot';
COMMENT ON COLUMN version_overview.rows_opened IS 'rows that are new or got a new content';
COMMENT ON COLUMN version_overview.rows_closed IS 'rows whose former content ended';
