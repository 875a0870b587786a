-- Plain Terraform by way of the HTTP backend: its whole-state lock is the reservation of a run, and what it writes are
-- versions like all others.

ALTER TABLE runs DROP CONSTRAINT runs_kind_check;
ALTER TABLE runs ADD CONSTRAINT runs_kind_check CHECK (kind IN ('apply', 'refresh', 'import', 'recover', 'plain'));
ALTER TABLE state_versions DROP CONSTRAINT state_versions_source_check;
ALTER TABLE state_versions ADD CONSTRAINT state_versions_source_check
    CHECK (source IN ('apply', 'refresh', 'import', 'recover', 'http'));
ALTER TABLE runs ADD COLUMN lock_id text;

COMMENT ON COLUMN runs.kind IS 'apply, refresh, import, recover, or plain (a plain terraform, by way of the HTTP backend)';
COMMENT ON COLUMN runs.lock_id IS 'the id that a plain terraform has given its lock; null for other runs';
COMMENT ON COLUMN state_versions.source IS 'how it came to be: apply, refresh, import, recover, or http (a plain terraform)';

CREATE INDEX runs_lock ON runs (state_id, lock_id) WHERE lock_id IS NOT NULL;
