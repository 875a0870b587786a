-- The first schema of kl on SQLite. The same tables, columns and views as in migrations/postgres/0001_init.sql.
--
-- Times are microseconds since 1970-01-01 UTC by the database's clock. Ids are UUIDs as lower-case text.
-- docs/schema.md explains all of it.

-- One Terraform state each: its identity, and where its trunk stands.
CREATE TABLE states (
    id TEXT PRIMARY KEY NOT NULL,               -- the state's id, a UUID
    name TEXT NOT NULL UNIQUE,                  -- its name, compared exactly; the workspace is part of it
    lineage TEXT,                               -- Terraform's lineage; null before the first version, then never changed
    serial INTEGER NOT NULL DEFAULT 0,          -- the serial of the newest version; 0 before the first; only grows
    secret TEXT NOT NULL,                       -- the key for digests of values, in hex; sensitive
    next_ticket INTEGER NOT NULL DEFAULT 1,     -- the next place in the queue for reservations
    created_at INTEGER NOT NULL,                -- when kl first heard of it
    CHECK (serial >= 0)
) STRICT;

CREATE TRIGGER states_lineage_never_changes BEFORE UPDATE OF lineage ON states
WHEN OLD.lineage IS NOT NULL AND NEW.lineage IS NOT OLD.lineage
BEGIN
    SELECT RAISE(ABORT, 'the lineage of a state never changes');
END;

CREATE TRIGGER states_serial_only_grows BEFORE UPDATE OF serial ON states
WHEN NEW.serial < OLD.serial
BEGIN
    SELECT RAISE(ABORT, 'the serial of a state only grows');
END;

-- Reviewed promises: what `kl plan` found, as kl-plan.json has it. Without attribute values.
CREATE TABLE plan_specs (
    id TEXT PRIMARY KEY NOT NULL,               -- the spec's id, a UUID
    state_id TEXT NOT NULL REFERENCES states (id), -- the state that it is about
    source_serial INTEGER NOT NULL,             -- the serial that it was planned at
    actor TEXT NOT NULL,                        -- who planned it
    origin TEXT NOT NULL,                       -- from where, as JSON: forge, repository, request, commit, job_url
    digest TEXT NOT NULL,                       -- the digest of the document
    document TEXT NOT NULL,                     -- the canonical text of kl-plan.json
    created_at INTEGER NOT NULL                 -- when it was stored
) STRICT;

CREATE INDEX plan_specs_state ON plan_specs (state_id, created_at);

-- Everything that kl did, or began to do, to a state.
CREATE TABLE runs (
    id TEXT PRIMARY KEY NOT NULL,               -- the run's id, a UUID that grows with time
    state_id TEXT NOT NULL REFERENCES states (id), -- the state that it is about
    kind TEXT NOT NULL,                         -- apply, refresh, import or recover
    status TEXT NOT NULL,                       -- started, waiting, reserved, applying; ends: committed, noop, dry_run, failed, conflict, stale, lost, aborted
    actor TEXT NOT NULL,                        -- who ran it
    origin TEXT NOT NULL,                       -- from where, as JSON: forge, repository, request, commit, job_url
    spec_id TEXT REFERENCES plan_specs (id),    -- the spec that it applies
    source_serial INTEGER NOT NULL,             -- the serial that its plan was made from
    tools TEXT NOT NULL,                        -- the versions that it ran with, as JSON: program, version, providers
    claims TEXT NOT NULL,                       -- what it meant to reserve, as JSON: a list of pattern and mode
    reserved_count INTEGER NOT NULL DEFAULT 0,  -- how many reservations it was granted; fewer that stand means that it lost its lease
    started_at INTEGER NOT NULL,                -- when it began
    ended_at INTEGER,                           -- when it ended; null while it is live
    result_serial INTEGER,                      -- the serial that it committed
    error TEXT,                                 -- why it failed, in a sentence without secrets
    conflict TEXT NOT NULL DEFAULT '[]',        -- what stood in its way, as JSON, when that was the reason
    CHECK (kind IN ('apply', 'refresh', 'import', 'recover')),
    CHECK (status IN ('started', 'waiting', 'reserved', 'applying', 'committed', 'noop', 'dry_run', 'failed',
                      'conflict', 'stale', 'lost', 'aborted')),
    CHECK ((ended_at IS NULL) = (status IN ('started', 'waiting', 'reserved', 'applying')))
) STRICT;

CREATE INDEX runs_state ON runs (state_id, started_at);
CREATE INDEX runs_live ON runs (state_id) WHERE ended_at IS NULL;

-- The runs of `kl apply`.
CREATE VIEW apply_runs AS
SELECT id, state_id, status, actor, origin, spec_id, source_serial, tools, claims, reserved_count, started_at,
       ended_at, result_serial, error, conflict
FROM runs WHERE kind = 'apply';

-- The runs of `kl refresh`.
CREATE VIEW refresh_runs AS
SELECT id, state_id, status, actor, origin, spec_id, source_serial, tools, claims, reserved_count, started_at,
       ended_at, result_serial, error, conflict
FROM runs WHERE kind = 'refresh';

-- The timeline of each run: what happened, in order. Append-only, without secrets.
CREATE TABLE run_events (
    run_id TEXT NOT NULL REFERENCES runs (id),  -- the run
    seq INTEGER NOT NULL,                       -- the place in the run's timeline, counted from 1 without gaps
    at INTEGER NOT NULL,                        -- when it was recorded
    kind TEXT NOT NULL,                         -- what happened, in one word; the same as in the event
    event TEXT NOT NULL,                        -- the event as JSON
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER run_events_are_never_changed BEFORE UPDATE ON run_events
BEGIN
    SELECT RAISE(ABORT, 'run_events is append-only');
END;

CREATE TRIGGER run_events_are_never_removed BEFORE DELETE ON run_events
BEGIN
    SELECT RAISE(ABORT, 'run_events is append-only');
END;

-- What Terraform has done so far in a run that has not committed: the newest checkpoint of each run.
CREATE TABLE run_checkpoints (
    run_id TEXT PRIMARY KEY NOT NULL REFERENCES runs (id), -- the run
    state TEXT NOT NULL,                        -- the slice's state document as Terraform last wrote it; sensitive
    changed TEXT NOT NULL,                      -- patterns of the rows that Terraform has changed, as a JSON list
    in_flight TEXT NOT NULL,                    -- addresses that Terraform was working on, as a JSON list
    taken_at INTEGER NOT NULL                   -- when
) STRICT;

-- Who may touch which rows. Rows are kept after their release, as history.
CREATE TABLE resource_reservations (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, -- a number
    state_id TEXT NOT NULL REFERENCES states (id), -- the state
    run_id TEXT NOT NULL REFERENCES runs (id),  -- the run that holds it or waits for it
    pattern TEXT NOT NULL,                      -- the rows that it covers: *, module.NAME.*, a resource, an instance, or output.NAME
    mode TEXT NOT NULL,                         -- read or write
    held_as TEXT NOT NULL DEFAULT 'run',        -- run, quarantine (a failed run changed real objects) or lock (a plain terraform)
    ticket INTEGER NOT NULL,                    -- the place in the queue: lower asked earlier
    asked_at INTEGER NOT NULL,                  -- when it was asked for
    acquired_at INTEGER,                        -- when it was granted; null while it waits
    expires_at INTEGER,                         -- when the lease, or the place in the queue, ends unless renewed; null: never
    released_at INTEGER,                        -- when it ended; null while it stands
    CHECK (mode IN ('read', 'write')),
    CHECK (held_as IN ('run', 'quarantine', 'lock'))
) STRICT;

CREATE INDEX resource_reservations_standing ON resource_reservations (state_id) WHERE released_at IS NULL;
CREATE INDEX resource_reservations_of_run ON resource_reservations (run_id) WHERE released_at IS NULL;

-- The versions of each state: one for every commit.
CREATE TABLE state_versions (
    state_id TEXT NOT NULL REFERENCES states (id), -- the state
    serial INTEGER NOT NULL,                    -- the version's serial
    source_serial INTEGER NOT NULL,             -- the serial that the run's plan was made from
    committed_at INTEGER NOT NULL,              -- when
    actor TEXT NOT NULL,                        -- who
    origin TEXT NOT NULL,                       -- from where, as JSON: forge, repository, request, commit, job_url
    run_id TEXT REFERENCES runs (id),           -- the run that made it
    spec_id TEXT REFERENCES plan_specs (id),    -- the spec that the run applied
    source TEXT NOT NULL,                       -- how it came to be: apply, refresh, import or recover
    mode TEXT NOT NULL,                         -- how it was written: row-delta or snapshot
    terraform_version TEXT NOT NULL,            -- the terraform_version of the state document
    document TEXT NOT NULL,                     -- top-level members of the document that kl does not know, as a JSON list of [name, text]
    providers TEXT NOT NULL,                    -- provider versions, as JSON: source address to version
    rows_opened INTEGER NOT NULL,               -- rows that are new or got a new content
    rows_closed INTEGER NOT NULL,               -- rows whose former content ended
    PRIMARY KEY (state_id, serial),
    CHECK (source IN ('apply', 'refresh', 'import', 'recover')),
    CHECK (mode IN ('row-delta', 'snapshot'))
) STRICT;

CREATE INDEX state_versions_run ON state_versions (run_id);

-- Contents of rows, each stored once.
CREATE TABLE resource_bodies (
    content_hash BLOB PRIMARY KEY NOT NULL,     -- SHA-256 of the content's canonical JSON
    body TEXT NOT NULL                          -- the exact JSON text; for an object a resource block with this one instance; sensitive
) STRICT;

-- Lifecycles: the half-open range of serials in which a row had one content.
CREATE TABLE resources (
    id INTEGER PRIMARY KEY NOT NULL,            -- a number
    state_id TEXT NOT NULL REFERENCES states (id), -- the state
    row_key BLOB NOT NULL,                      -- SHA-256 of kind, address and qualifier: addresses can be longer than an index entry
    kind TEXT NOT NULL,                         -- object (a resource instance), output, check, or husk (a resource without instances)
    address TEXT NOT NULL,                      -- Terraform's text for it; output.NAME for an output
    qualifier TEXT NOT NULL DEFAULT '',         -- the deposed key of an object, the object kind of a check; else empty
    module_path TEXT NOT NULL DEFAULT '',       -- the module instance that holds it; empty for the root
    resource_key TEXT,                          -- the address without any instance key; null for outputs and checks
    mode TEXT,                                  -- managed or data; null for outputs and checks
    type TEXT,                                  -- the resource type; null for outputs and checks
    name TEXT,                                  -- the name of the block or output; null for checks
    content_hash BLOB NOT NULL REFERENCES resource_bodies (content_hash), -- its content
    from_serial INTEGER NOT NULL,               -- the first serial with this content
    to_serial INTEGER,                          -- the first serial without it; null while it lives
    CHECK (kind IN ('object', 'output', 'check', 'husk')),
    CHECK (to_serial > from_serial),
    FOREIGN KEY (state_id, from_serial) REFERENCES state_versions (state_id, serial),
    FOREIGN KEY (state_id, to_serial) REFERENCES state_versions (state_id, serial)
) STRICT;

CREATE UNIQUE INDEX resources_open ON resources (state_id, row_key) WHERE to_serial IS NULL;
CREATE UNIQUE INDEX resources_lifecycle ON resources (state_id, row_key, from_serial);
CREATE INDEX resources_from ON resources (state_id, from_serial);
CREATE INDEX resources_to ON resources (state_id, to_serial) WHERE to_serial IS NOT NULL;
CREATE INDEX resources_resource_key ON resources (resource_key);
CREATE INDEX resources_address ON resources (address);

-- The sticky comment of each pull or merge request: one a request.
CREATE TABLE comments (
    forge TEXT NOT NULL,                        -- github or gitlab
    repository TEXT NOT NULL,                   -- owner/name on the forge
    request INTEGER NOT NULL,                   -- the number of the pull or merge request
    comment_id TEXT NOT NULL,                   -- the forge's id of the comment
    digest TEXT NOT NULL,                       -- the digest of the text as it was last rendered
    updated_at INTEGER NOT NULL,                -- when it was last written
    PRIMARY KEY (forge, repository, request)
) STRICT, WITHOUT ROWID;

-- The edges of every current trunk, as Terraform recorded them in the instances.
CREATE VIEW resource_dependencies AS
SELECT states.name AS state, resources.address AS address, resources.qualifier AS qualifier, edges.value AS depends_on
FROM resources
JOIN states ON states.id = resources.state_id
JOIN resource_bodies ON resource_bodies.content_hash = resources.content_hash
JOIN json_each(resource_bodies.body, '$.instances[0].dependencies') AS edges
WHERE resources.kind = 'object' AND resources.to_serial IS NULL AND edges.type = 'text';
