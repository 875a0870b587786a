-- How a version was written says for itself what a refresh and a recovery did: rows as they are in reality, and rows as an
-- earlier run had left them.

ALTER TABLE state_versions DROP CONSTRAINT state_versions_mode_check;
ALTER TABLE state_versions ADD CONSTRAINT state_versions_mode_check
    CHECK (mode IN ('row-delta', 'snapshot', 'rollback', 'refresh', 'recover'));

UPDATE state_versions SET mode = source WHERE source IN ('refresh', 'recover') AND mode = 'row-delta';

COMMENT ON COLUMN state_versions.mode IS
    'how it was written: row-delta (the rows of a plan), snapshot (a whole document), refresh, recover, or rollback (rows as they were at an earlier serial)';
COMMENT ON COLUMN version_overview.mode IS
    'how it was written: row-delta (the rows of a plan), snapshot (a whole document), refresh, recover, or rollback (rows as they were at an earlier serial)';
