-- The overview of the versions says how many rows each touched, as `kl history` does.
CREATE OR REPLACE VIEW version_overview AS
SELECT s.name AS state, v.serial, v.source_serial, v.committed_at, v.actor,
       v.origin ->> 'forge' AS forge, v.origin ->> 'repository' AS repository,
       CAST(v.origin ->> 'request' AS bigint) AS request, v.run_id, v.spec_id, p.actor AS planned_by, v.source, v.mode,
       v.rows_opened, v.rows_closed, v.rows_touched
FROM state_versions v
JOIN states s ON s.id = v.state_id
LEFT JOIN plan_specs p ON p.id = v.spec_id;

COMMENT ON COLUMN version_overview.rows_touched IS 'rows that are new, got a new content or ended, each once';
