-- Versions that no Terraform made: rows that go back to an earlier serial, leave the state, or move.

ALTER TABLE runs DROP CONSTRAINT runs_kind_check;
ALTER TABLE runs ADD CONSTRAINT runs_kind_check
    CHECK (kind IN ('apply', 'refresh', 'import', 'recover', 'plain', 'rollback', 'remove', 'move'));
ALTER TABLE state_versions DROP CONSTRAINT state_versions_source_check;
ALTER TABLE state_versions ADD CONSTRAINT state_versions_source_check
    CHECK (source IN ('apply', 'refresh', 'import', 'recover', 'http', 'rollback', 'remove', 'move'));
ALTER TABLE state_versions DROP CONSTRAINT state_versions_mode_check;
ALTER TABLE state_versions ADD CONSTRAINT state_versions_mode_check
    CHECK (mode IN ('row-delta', 'snapshot', 'rollback'));

COMMENT ON COLUMN runs.kind IS
    'apply, refresh, import, recover, plain (a plain terraform, by way of the HTTP backend), rollback, remove (kl state rm) or move (kl state mv)';
COMMENT ON COLUMN state_versions.source IS
    'how it came to be: apply, refresh, import, recover, http (a plain terraform), rollback, remove (kl state rm) or move (kl state mv)';
COMMENT ON COLUMN state_versions.mode IS 'how it was written: row-delta, snapshot, or rollback (rows as they were at an earlier serial)';
COMMENT ON COLUMN version_overview.source IS
    'how it came to be: apply, refresh, import, recover, http (a plain terraform), rollback, remove (kl state rm) or move (kl state mv)';
COMMENT ON COLUMN version_overview.mode IS 'how it was written: row-delta, snapshot, or rollback (rows as they were at an earlier serial)';
