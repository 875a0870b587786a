-- Every version of a run is told of it. A plain terraform writes its state while it works, once or many times: however it
-- ended, its run names the newest of its versions.
UPDATE runs SET result_serial = (SELECT MAX(v.serial) FROM state_versions v WHERE v.run_id = runs.id)
WHERE ended_at IS NOT NULL AND result_serial IS NULL
  AND EXISTS (SELECT 1 FROM state_versions v WHERE v.run_id = runs.id);

-- A run is told with the rows of all of its versions.
DROP VIEW run_overview;
CREATE VIEW run_overview AS
SELECT r.id AS run_id, s.name AS state, r.kind, r.status, r.actor, r.forge, r.repository, r.request,
       r.origin ->> 'job_url' AS job_url, r.spec_id, r.started_at, r.ended_at,
       (r.ended_at - r.started_at) / 1000000.0 AS seconds,
       r.source_serial, r.result_serial,
       (SELECT CAST(SUM(v.rows_opened) AS INTEGER) FROM state_versions v WHERE v.run_id = r.id) AS rows_opened,
       (SELECT CAST(SUM(v.rows_closed) AS INTEGER) FROM state_versions v WHERE v.run_id = r.id) AS rows_closed,
       (SELECT CASE e.kind WHEN 'stale_check_passed' THEN 'passed' ELSE 'changed' END FROM run_events e
        WHERE e.run_id = r.id AND e.kind IN ('stale_check_passed', 'stale_check_failed')
        ORDER BY e.seq DESC LIMIT 1) AS stale_check,
       (SELECT json_array_length(e.event, '$.beside')
        FROM run_events e WHERE e.run_id = r.id AND e.kind = 'reserved' ORDER BY e.seq DESC LIMIT 1) AS beside,
       (SELECT e.event ->> 'lane'
        FROM run_events e WHERE e.run_id = r.id AND e.kind = 'lane_chosen' ORDER BY e.seq DESC LIMIT 1) AS lane,
       (SELECT e.event ->> 'relation'
        FROM run_events e WHERE e.run_id = r.id AND e.kind = 'replanned' ORDER BY e.seq DESC LIMIT 1) AS replan,
       r.error, (SELECT COUNT(*) FROM state_versions v WHERE v.run_id = r.id) AS versions
FROM runs r
JOIN states s ON s.id = r.state_id;

-- What stands in the way of a plain terraform that still waits is no refusal yet.
DROP VIEW run_conflicts;
CREATE VIEW run_conflicts AS
SELECT r.id AS run_id, s.name AS state, r.actor,
       b.value ->> '$.reservation.claim.pattern' AS pattern, b.value ->> '$.reservation.claim.mode' AS mode,
       b.value ->> '$.reservation.held_as' AS held_as,
       b.value ->> '$.reservation.holder' AS holder, b.value ->> '$.reservation.run' AS holder_run_id
FROM runs r
JOIN states s ON s.id = r.state_id
JOIN json_each(r.conflict) AS b
WHERE r.ended_at IS NOT NULL;
