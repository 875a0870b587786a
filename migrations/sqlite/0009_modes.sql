-- How a version was written says for itself what a refresh and a recovery did: rows as they are in reality, and rows as an
-- earlier run had left them.

-- As in 0006; the index that comes and goes tells other connections that the schema has changed.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, '''snapshot'', ''rollback''))', '''snapshot'', ''rollback'', ''refresh'', ''recover''))')
WHERE type = 'table' AND name = 'state_versions';
PRAGMA writable_schema = RESET;
CREATE INDEX state_versions_modes ON state_versions (mode);
DROP INDEX state_versions_modes;

UPDATE state_versions SET mode = source WHERE source IN ('refresh', 'recover') AND mode = 'row-delta';
