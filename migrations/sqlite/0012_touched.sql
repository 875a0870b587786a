-- How many rows a version touched: its rows_opened and rows_closed both count a row that got another content.
ALTER TABLE state_versions ADD COLUMN rows_touched INTEGER NOT NULL DEFAULT 0; -- rows that are new, got a new content or ended, each once
-- Of versions whose lifecycles `kl gc` has removed nobody can tell how many rows they only changed: at least so many.
UPDATE state_versions SET rows_touched = CASE
WHEN serial <= (SELECT history_from FROM states WHERE id = state_id) THEN MAX(rows_opened, rows_closed)
ELSE rows_opened + rows_closed - (
    SELECT COUNT(*) FROM resources ended
    JOIN resources began
      ON began.state_id = ended.state_id AND began.row_key = ended.row_key AND began.from_serial = ended.to_serial
    WHERE ended.state_id = state_versions.state_id AND ended.to_serial = state_versions.serial
) END;
