-- Views for people, with names in the place of ids; docs/queries.md has examples. The same views and columns as in
-- migrations/postgres/0005_views.sql. docs/schema.md explains every column.

-- Pages of runs, of one state and of all, each by one step into an index.
DROP INDEX runs_state;
CREATE INDEX runs_state ON runs (state_id, started_at, id);
CREATE INDEX runs_time ON runs (started_at, id);

-- The trunk of every state: each row as it is now, and who made it so.
CREATE VIEW current_resources AS
SELECT s.name AS state, r.address, r.kind, r.qualifier, r.module_path, r.resource_key, r.mode, r.type, r.name,
       r.from_serial AS serial, v.committed_at AS changed_at, v.actor, v.source,
       v.origin ->> 'forge' AS forge, v.origin ->> 'repository' AS repository,
       CAST(v.origin ->> 'request' AS INTEGER) AS request, v.run_id, v.spec_id
FROM resources r
JOIN states s ON s.id = r.state_id
JOIN state_versions v ON v.state_id = r.state_id AND v.serial = r.from_serial
WHERE r.to_serial IS NULL;

-- The life of every row: each change that a version made to it. What `kl gc` has removed is missing.
CREATE VIEW resource_changes AS
SELECT s.name AS state, c.address, c.kind, c.qualifier, c.serial, c.change, v.committed_at AS changed_at, v.actor,
       v.source, v.origin ->> 'forge' AS forge, v.origin ->> 'repository' AS repository,
       CAST(v.origin ->> 'request' AS INTEGER) AS request, v.run_id, v.spec_id
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

-- Every run with what matters of its timeline.
CREATE VIEW run_overview AS
SELECT r.id AS run_id, s.name AS state, r.kind, r.status, r.actor, r.forge, r.repository, r.request,
       r.origin ->> 'job_url' AS job_url, r.spec_id, r.started_at, r.ended_at,
       (r.ended_at - r.started_at) / 1000000.0 AS seconds,
       r.source_serial, r.result_serial, v.rows_opened, v.rows_closed,
       (SELECT CASE e.kind WHEN 'stale_check_passed' THEN 'passed' ELSE 'changed' END FROM run_events e
        WHERE e.run_id = r.id AND e.kind IN ('stale_check_passed', 'stale_check_failed')
        ORDER BY e.seq DESC LIMIT 1) AS stale_check,
       (SELECT json_array_length(e.event, '$.beside')
        FROM run_events e WHERE e.run_id = r.id AND e.kind = 'reserved' ORDER BY e.seq DESC LIMIT 1) AS beside,
       (SELECT e.event ->> 'lane'
        FROM run_events e WHERE e.run_id = r.id AND e.kind = 'lane_chosen' ORDER BY e.seq DESC LIMIT 1) AS lane,
       (SELECT e.event ->> 'relation'
        FROM run_events e WHERE e.run_id = r.id AND e.kind = 'replanned' ORDER BY e.seq DESC LIMIT 1) AS replan,
       r.error
FROM runs r
JOIN states s ON s.id = r.state_id
LEFT JOIN state_versions v ON v.state_id = r.state_id AND v.serial = r.result_serial;

-- What stood in the way of each run that was refused, as it stood then.
CREATE VIEW run_conflicts AS
SELECT r.id AS run_id, s.name AS state, r.actor,
       b.value ->> '$.reservation.claim.pattern' AS pattern, b.value ->> '$.reservation.claim.mode' AS mode,
       b.value ->> '$.reservation.held_as' AS held_as,
       b.value ->> '$.reservation.holder' AS holder, b.value ->> '$.reservation.run' AS holder_run_id
FROM runs r
JOIN states s ON s.id = r.state_id
JOIN json_each(r.conflict) AS b;

-- Every reservation that stands now, and who is behind it.
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

-- The versions of each state with their names resolved: who, from which request, by which run and spec.
CREATE VIEW version_overview AS
SELECT s.name AS state, v.serial, v.source_serial, v.committed_at, v.actor,
       v.origin ->> 'forge' AS forge, v.origin ->> 'repository' AS repository,
       CAST(v.origin ->> 'request' AS INTEGER) AS request, v.run_id, v.spec_id, p.actor AS planned_by, v.source, v.mode,
       v.rows_opened, v.rows_closed
FROM state_versions v
JOIN states s ON s.id = v.state_id
LEFT JOIN plan_specs p ON p.id = v.spec_id;
