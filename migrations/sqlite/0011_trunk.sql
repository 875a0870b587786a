-- The trunk by address, so that what a pattern covers, and a page of it, is a step into an index. Cut, because an address can
-- be longer than an index entry.
CREATE INDEX resources_trunk ON resources (state_id, substr(address, 1, 500)) WHERE to_serial IS NULL;
