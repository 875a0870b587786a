-- Versions that no Terraform made: rows that go back to an earlier serial, leave the state, or move.

-- As in 0006; the index that comes and goes tells other connections that the schema has changed.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, '''recover'', ''plain''))', '''recover'', ''plain'', ''rollback'', ''remove'', ''move''))')
WHERE type = 'table' AND name = 'runs';
UPDATE sqlite_schema
SET sql = replace(replace(sql, '''recover'', ''http''))', '''recover'', ''http'', ''rollback'', ''remove'', ''move''))'),
                  '''row-delta'', ''snapshot''))', '''row-delta'', ''snapshot'', ''rollback''))')
WHERE type = 'table' AND name = 'state_versions';
PRAGMA writable_schema = RESET;
CREATE INDEX state_versions_travel ON state_versions (source);
DROP INDEX state_versions_travel;
