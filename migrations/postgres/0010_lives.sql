-- The newest versions that touched a resource in one instance of its module, and those that touched a deposed object: one step
-- into an index each, however long the history is. Cut, because an address can be longer than an index entry.
CREATE INDEX resources_group_from ON resources (
    state_id,
    substr(module_path || '.' || CASE WHEN mode = 'data' THEN 'data.' ELSE '' END || type || '.' || name, 1, 500),
    from_serial
) WHERE replace(module_path, '[', '') <> module_path;
CREATE INDEX resources_group_to ON resources (
    state_id,
    substr(module_path || '.' || CASE WHEN mode = 'data' THEN 'data.' ELSE '' END || type || '.' || name, 1, 500),
    to_serial
) WHERE replace(module_path, '[', '') <> module_path AND to_serial IS NOT NULL;
CREATE INDEX resources_deposed ON resources (state_id, substr(address, 1, 500)) WHERE kind = 'object' AND qualifier <> '';
