-- Plain Terraform by way of the HTTP backend: its whole-state lock is the reservation of a run, and what it writes are
-- versions like all others.

-- SQLite cannot change a CHECK; this is the way that its manual gives for one that lets more pass than before. The
-- column that is added afterwards tells other connections that the schema has changed.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, '''import'', ''recover''))', '''import'', ''recover'', ''plain''))')
WHERE type = 'table' AND name = 'runs';
UPDATE sqlite_schema
SET sql = replace(sql, '''import'', ''recover''))', '''import'', ''recover'', ''http''))')
WHERE type = 'table' AND name = 'state_versions';
PRAGMA writable_schema = RESET;

ALTER TABLE runs ADD COLUMN lock_id TEXT; -- the id that a plain terraform has given its lock; null for other runs

CREATE INDEX runs_lock ON runs (state_id, lock_id) WHERE lock_id IS NOT NULL;
