-- The first schema of kl on PostgreSQL. The same tables, columns and views as in migrations/sqlite/0001_init.sql.
--
-- Texts that name things compare by their bytes (COLLATE "C"), whatever the database's locale. Bodies are text and JSON
-- columns are json, never jsonb: jsonb refuses \u0000. docs/schema.md explains all of it.

CREATE TABLE states (
    id uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    lineage text,
    serial bigint NOT NULL DEFAULT 0,
    secret text NOT NULL,
    next_ticket bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL,
    CHECK (serial >= 0)
);

COMMENT ON TABLE states IS 'One Terraform state each: its identity, and where its trunk stands.';
COMMENT ON COLUMN states.id IS 'the state''s id, a UUID';
COMMENT ON COLUMN states.name IS 'its name, compared exactly; the workspace is part of it';
COMMENT ON COLUMN states.lineage IS 'Terraform''s lineage; null before the first version, then never changed';
COMMENT ON COLUMN states.serial IS 'the serial of the newest version; 0 before the first; only grows';
COMMENT ON COLUMN states.secret IS 'the key for digests of values, in hex; sensitive';
COMMENT ON COLUMN states.next_ticket IS 'the next place in the queue for reservations';
COMMENT ON COLUMN states.created_at IS 'when kl first heard of it';

CREATE FUNCTION kl_states_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.lineage IS NOT NULL AND NEW.lineage IS DISTINCT FROM OLD.lineage THEN
        RAISE EXCEPTION 'the lineage of a state never changes';
    END IF;
    IF NEW.serial < OLD.serial THEN
        RAISE EXCEPTION 'the serial of a state only grows';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER states_guard BEFORE UPDATE ON states FOR EACH ROW EXECUTE FUNCTION kl_states_guard();

CREATE TABLE plan_specs (
    id uuid PRIMARY KEY,
    state_id uuid NOT NULL REFERENCES states (id),
    source_serial bigint NOT NULL,
    actor text NOT NULL,
    origin json NOT NULL,
    digest text NOT NULL,
    document text NOT NULL,
    created_at timestamptz NOT NULL
);

COMMENT ON TABLE plan_specs IS 'Reviewed promises: what `kl plan` found, as kl-plan.json has it. Without attribute values.';
COMMENT ON COLUMN plan_specs.id IS 'the spec''s id, a UUID';
COMMENT ON COLUMN plan_specs.state_id IS 'the state that it is about';
COMMENT ON COLUMN plan_specs.source_serial IS 'the serial that it was planned at';
COMMENT ON COLUMN plan_specs.actor IS 'who planned it';
COMMENT ON COLUMN plan_specs.origin IS 'from where, as JSON: forge, repository, request, commit, job_url';
COMMENT ON COLUMN plan_specs.digest IS 'the digest of the document';
COMMENT ON COLUMN plan_specs.document IS 'the canonical text of kl-plan.json';
COMMENT ON COLUMN plan_specs.created_at IS 'when it was stored';

CREATE INDEX plan_specs_state ON plan_specs (state_id, created_at);

CREATE TABLE runs (
    id uuid PRIMARY KEY,
    state_id uuid NOT NULL REFERENCES states (id),
    kind text NOT NULL,
    status text NOT NULL,
    actor text NOT NULL,
    origin json NOT NULL,
    spec_id uuid REFERENCES plan_specs (id),
    source_serial bigint NOT NULL,
    tools json NOT NULL,
    claims json NOT NULL,
    reserved_count bigint NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    result_serial bigint,
    error text,
    conflict json NOT NULL DEFAULT '[]',
    CHECK (kind IN ('apply', 'refresh', 'import', 'recover')),
    CHECK (status IN ('started', 'waiting', 'reserved', 'applying', 'committed', 'noop', 'dry_run', 'failed',
                      'conflict', 'stale', 'lost', 'aborted')),
    CHECK ((ended_at IS NULL) = (status IN ('started', 'waiting', 'reserved', 'applying')))
);

COMMENT ON TABLE runs IS 'Everything that kl did, or began to do, to a state.';
COMMENT ON COLUMN runs.id IS 'the run''s id, a UUID that grows with time';
COMMENT ON COLUMN runs.state_id IS 'the state that it is about';
COMMENT ON COLUMN runs.kind IS 'apply, refresh, import or recover';
COMMENT ON COLUMN runs.status IS 'started, waiting, reserved, applying; ends: committed, noop, dry_run, failed, conflict, stale, lost, aborted';
COMMENT ON COLUMN runs.actor IS 'who ran it';
COMMENT ON COLUMN runs.origin IS 'from where, as JSON: forge, repository, request, commit, job_url';
COMMENT ON COLUMN runs.spec_id IS 'the spec that it applies';
COMMENT ON COLUMN runs.source_serial IS 'the serial that its plan was made from';
COMMENT ON COLUMN runs.tools IS 'the versions that it ran with, as JSON: program, version, providers';
COMMENT ON COLUMN runs.claims IS 'what it meant to reserve, as JSON: a list of pattern and mode';
COMMENT ON COLUMN runs.reserved_count IS 'how many reservations it was granted; fewer that stand means that it lost its lease';
COMMENT ON COLUMN runs.started_at IS 'when it began';
COMMENT ON COLUMN runs.ended_at IS 'when it ended; null while it is live';
COMMENT ON COLUMN runs.result_serial IS 'the serial that it committed';
COMMENT ON COLUMN runs.error IS 'why it failed, in a sentence without secrets';
COMMENT ON COLUMN runs.conflict IS 'what stood in its way, as JSON, when that was the reason';

CREATE INDEX runs_state ON runs (state_id, started_at);
CREATE INDEX runs_live ON runs (state_id) WHERE ended_at IS NULL;

CREATE VIEW apply_runs AS
SELECT id, state_id, status, actor, origin, spec_id, source_serial, tools, claims, reserved_count, started_at,
       ended_at, result_serial, error, conflict
FROM runs WHERE kind = 'apply';

COMMENT ON VIEW apply_runs IS 'The runs of `kl apply`.';
COMMENT ON COLUMN apply_runs.id IS 'the run''s id, a UUID that grows with time';
COMMENT ON COLUMN apply_runs.state_id IS 'the state that it is about';
COMMENT ON COLUMN apply_runs.status IS 'started, waiting, reserved, applying; ends: committed, noop, dry_run, failed, conflict, stale, lost, aborted';
COMMENT ON COLUMN apply_runs.actor IS 'who ran it';
COMMENT ON COLUMN apply_runs.origin IS 'from where, as JSON: forge, repository, request, commit, job_url';
COMMENT ON COLUMN apply_runs.spec_id IS 'the spec that it applies';
COMMENT ON COLUMN apply_runs.source_serial IS 'the serial that its plan was made from';
COMMENT ON COLUMN apply_runs.tools IS 'the versions that it ran with, as JSON: program, version, providers';
COMMENT ON COLUMN apply_runs.claims IS 'what it meant to reserve, as JSON: a list of pattern and mode';
COMMENT ON COLUMN apply_runs.reserved_count IS 'how many reservations it was granted; fewer that stand means that it lost its lease';
COMMENT ON COLUMN apply_runs.started_at IS 'when it began';
COMMENT ON COLUMN apply_runs.ended_at IS 'when it ended; null while it is live';
COMMENT ON COLUMN apply_runs.result_serial IS 'the serial that it committed';
COMMENT ON COLUMN apply_runs.error IS 'why it failed, in a sentence without secrets';
COMMENT ON COLUMN apply_runs.conflict IS 'what stood in its way, as JSON, when that was the reason';

CREATE VIEW refresh_runs AS
SELECT id, state_id, status, actor, origin, spec_id, source_serial, tools, claims, reserved_count, started_at,
       ended_at, result_serial, error, conflict
FROM runs WHERE kind = 'refresh';

COMMENT ON VIEW refresh_runs IS 'The runs of `kl refresh`.';
COMMENT ON COLUMN refresh_runs.id IS 'the run''s id, a UUID that grows with time';
COMMENT ON COLUMN refresh_runs.state_id IS 'the state that it is about';
COMMENT ON COLUMN refresh_runs.status IS 'started, waiting, reserved, applying; ends: committed, noop, dry_run, failed, conflict, stale, lost, aborted';
COMMENT ON COLUMN refresh_runs.actor IS 'who ran it';
COMMENT ON COLUMN refresh_runs.origin IS 'from where, as JSON: forge, repository, request, commit, job_url';
COMMENT ON COLUMN refresh_runs.spec_id IS 'the spec that it applies';
COMMENT ON COLUMN refresh_runs.source_serial IS 'the serial that its plan was made from';
COMMENT ON COLUMN refresh_runs.tools IS 'the versions that it ran with, as JSON: program, version, providers';
COMMENT ON COLUMN refresh_runs.claims IS 'what it meant to reserve, as JSON: a list of pattern and mode';
COMMENT ON COLUMN refresh_runs.reserved_count IS 'how many reservations it was granted; fewer that stand means that it lost its lease';
COMMENT ON COLUMN refresh_runs.started_at IS 'when it began';
COMMENT ON COLUMN refresh_runs.ended_at IS 'when it ended; null while it is live';
COMMENT ON COLUMN refresh_runs.result_serial IS 'the serial that it committed';
COMMENT ON COLUMN refresh_runs.error IS 'why it failed, in a sentence without secrets';
COMMENT ON COLUMN refresh_runs.conflict IS 'what stood in its way, as JSON, when that was the reason';

CREATE TABLE run_events (
    run_id uuid NOT NULL REFERENCES runs (id),
    seq bigint NOT NULL,
    at timestamptz NOT NULL,
    kind text NOT NULL,
    event json NOT NULL,
    PRIMARY KEY (run_id, seq)
);

COMMENT ON TABLE run_events IS 'The timeline of each run: what happened, in order. Append-only, without secrets.';
COMMENT ON COLUMN run_events.run_id IS 'the run';
COMMENT ON COLUMN run_events.seq IS 'the place in the run''s timeline, counted from 1 without gaps';
COMMENT ON COLUMN run_events.at IS 'when it was recorded';
COMMENT ON COLUMN run_events.kind IS 'what happened, in one word; the same as in the event';
COMMENT ON COLUMN run_events.event IS 'the event as JSON';

CREATE FUNCTION kl_run_events_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'run_events is append-only';
END
$$;

CREATE TRIGGER run_events_guard BEFORE UPDATE OR DELETE ON run_events
FOR EACH ROW EXECUTE FUNCTION kl_run_events_guard();

CREATE TABLE run_checkpoints (
    run_id uuid PRIMARY KEY REFERENCES runs (id),
    state text NOT NULL,
    changed json NOT NULL,
    in_flight json NOT NULL,
    taken_at timestamptz NOT NULL
);

COMMENT ON TABLE run_checkpoints IS 'What Terraform has done so far in a run that has not committed: the newest checkpoint of each run.';
COMMENT ON COLUMN run_checkpoints.run_id IS 'the run';
COMMENT ON COLUMN run_checkpoints.state IS 'the slice''s state document as Terraform last wrote it; sensitive';
COMMENT ON COLUMN run_checkpoints.changed IS 'patterns of the rows that Terraform has changed, as a JSON list';
COMMENT ON COLUMN run_checkpoints.in_flight IS 'addresses that Terraform was working on, as a JSON list';
COMMENT ON COLUMN run_checkpoints.taken_at IS 'when';

CREATE TABLE resource_reservations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state_id uuid NOT NULL REFERENCES states (id),
    run_id uuid NOT NULL REFERENCES runs (id),
    pattern text COLLATE "C" NOT NULL,
    mode text NOT NULL,
    held_as text NOT NULL DEFAULT 'run',
    ticket bigint NOT NULL,
    asked_at timestamptz NOT NULL,
    acquired_at timestamptz,
    expires_at timestamptz,
    released_at timestamptz,
    CHECK (mode IN ('read', 'write')),
    CHECK (held_as IN ('run', 'quarantine', 'lock'))
);

COMMENT ON TABLE resource_reservations IS 'Who may touch which rows. Rows are kept after their release, as history.';
COMMENT ON COLUMN resource_reservations.id IS 'a number';
COMMENT ON COLUMN resource_reservations.state_id IS 'the state';
COMMENT ON COLUMN resource_reservations.run_id IS 'the run that holds it or waits for it';
COMMENT ON COLUMN resource_reservations.pattern IS 'the rows that it covers: *, module.NAME.*, a resource, an instance, or output.NAME';
COMMENT ON COLUMN resource_reservations.mode IS 'read or write';
COMMENT ON COLUMN resource_reservations.held_as IS 'run, quarantine (a failed run changed real objects) or lock (a plain terraform)';
COMMENT ON COLUMN resource_reservations.ticket IS 'the place in the queue: lower asked earlier';
COMMENT ON COLUMN resource_reservations.asked_at IS 'when it was asked for';
COMMENT ON COLUMN resource_reservations.acquired_at IS 'when it was granted; null while it waits';
COMMENT ON COLUMN resource_reservations.expires_at IS 'when the lease, or the place in the queue, ends unless renewed; null: never';
COMMENT ON COLUMN resource_reservations.released_at IS 'when it ended; null while it stands';

CREATE INDEX resource_reservations_standing ON resource_reservations (state_id) WHERE released_at IS NULL;
CREATE INDEX resource_reservations_of_run ON resource_reservations (run_id) WHERE released_at IS NULL;

CREATE TABLE state_versions (
    state_id uuid NOT NULL REFERENCES states (id),
    serial bigint NOT NULL,
    source_serial bigint NOT NULL,
    committed_at timestamptz NOT NULL,
    actor text NOT NULL,
    origin json NOT NULL,
    run_id uuid REFERENCES runs (id),
    spec_id uuid REFERENCES plan_specs (id),
    source text NOT NULL,
    mode text NOT NULL,
    terraform_version text NOT NULL,
    document json NOT NULL,
    providers json NOT NULL,
    rows_opened bigint NOT NULL,
    rows_closed bigint NOT NULL,
    PRIMARY KEY (state_id, serial),
    CHECK (source IN ('apply', 'refresh', 'import', 'recover')),
    CHECK (mode IN ('row-delta', 'snapshot'))
);

COMMENT ON TABLE state_versions IS 'The versions of each state: one for every commit.';
COMMENT ON COLUMN state_versions.state_id IS 'the state';
COMMENT ON COLUMN state_versions.serial IS 'the version''s serial';
COMMENT ON COLUMN state_versions.source_serial IS 'the serial that the run''s plan was made from';
COMMENT ON COLUMN state_versions.committed_at IS 'when';
COMMENT ON COLUMN state_versions.actor IS 'who';
COMMENT ON COLUMN state_versions.origin IS 'from where, as JSON: forge, repository, request, commit, job_url';
COMMENT ON COLUMN state_versions.run_id IS 'the run that made it';
COMMENT ON COLUMN state_versions.spec_id IS 'the spec that the run applied';
COMMENT ON COLUMN state_versions.source IS 'how it came to be: apply, refresh, import or recover';
COMMENT ON COLUMN state_versions.mode IS 'how it was written: row-delta or snapshot';
COMMENT ON COLUMN state_versions.terraform_version IS 'the terraform_version of the state document';
COMMENT ON COLUMN state_versions.document IS 'top-level members of the document that kl does not know, as a JSON list of [name, text]';
COMMENT ON COLUMN state_versions.providers IS 'provider versions, as JSON: source address to version';
COMMENT ON COLUMN state_versions.rows_opened IS 'rows that are new or got a new content';
COMMENT ON COLUMN state_versions.rows_closed IS 'rows whose former content ended';

CREATE INDEX state_versions_run ON state_versions (run_id);

CREATE TABLE resource_bodies (
    content_hash bytea PRIMARY KEY,
    body text NOT NULL
);

COMMENT ON TABLE resource_bodies IS 'Contents of rows, each stored once.';
COMMENT ON COLUMN resource_bodies.content_hash IS 'SHA-256 of the content''s canonical JSON';
COMMENT ON COLUMN resource_bodies.body IS 'the exact JSON text; for an object a resource block with this one instance; sensitive';

CREATE TABLE resources (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state_id uuid NOT NULL REFERENCES states (id),
    row_key bytea NOT NULL,
    kind text NOT NULL,
    address text COLLATE "C" NOT NULL,
    qualifier text NOT NULL DEFAULT '',
    module_path text NOT NULL DEFAULT '',
    resource_key text COLLATE "C",
    mode text,
    type text,
    name text COLLATE "C",
    content_hash bytea NOT NULL REFERENCES resource_bodies (content_hash),
    from_serial bigint NOT NULL,
    to_serial bigint,
    CHECK (kind IN ('object', 'output', 'check', 'husk')),
    CHECK (to_serial > from_serial),
    FOREIGN KEY (state_id, from_serial) REFERENCES state_versions (state_id, serial),
    FOREIGN KEY (state_id, to_serial) REFERENCES state_versions (state_id, serial)
);

COMMENT ON TABLE resources IS 'Lifecycles: the half-open range of serials in which a row had one content.';
COMMENT ON COLUMN resources.id IS 'a number';
COMMENT ON COLUMN resources.state_id IS 'the state';
COMMENT ON COLUMN resources.row_key IS 'SHA-256 of kind, address and qualifier: addresses can be longer than an index entry';
COMMENT ON COLUMN resources.kind IS 'object (a resource instance), output, check, or husk (a resource without instances)';
COMMENT ON COLUMN resources.address IS 'Terraform''s text for it; output.NAME for an output';
COMMENT ON COLUMN resources.qualifier IS 'the deposed key of an object, the object kind of a check; else empty';
COMMENT ON COLUMN resources.module_path IS 'the module instance that holds it; empty for the root';
COMMENT ON COLUMN resources.resource_key IS 'the address without any instance key; null for outputs and checks';
COMMENT ON COLUMN resources.mode IS 'managed or data; null for outputs and checks';
COMMENT ON COLUMN resources.type IS 'the resource type; null for outputs and checks';
COMMENT ON COLUMN resources.name IS 'the name of the block or output; null for checks';
COMMENT ON COLUMN resources.content_hash IS 'its content';
COMMENT ON COLUMN resources.from_serial IS 'the first serial with this content';
COMMENT ON COLUMN resources.to_serial IS 'the first serial without it; null while it lives';

CREATE UNIQUE INDEX resources_open ON resources (state_id, row_key) WHERE to_serial IS NULL;
CREATE UNIQUE INDEX resources_lifecycle ON resources (state_id, row_key, from_serial);
CREATE INDEX resources_from ON resources (state_id, from_serial);
CREATE INDEX resources_to ON resources (state_id, to_serial) WHERE to_serial IS NOT NULL;
CREATE INDEX resources_resource_key ON resources USING hash (resource_key);
CREATE INDEX resources_address ON resources USING hash (address);

CREATE TABLE comments (
    forge text COLLATE "C" NOT NULL,
    repository text COLLATE "C" NOT NULL,
    request bigint NOT NULL,
    comment_id text NOT NULL,
    digest text NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (forge, repository, request)
);

COMMENT ON TABLE comments IS 'The sticky comment of each pull or merge request: one a request.';
COMMENT ON COLUMN comments.forge IS 'github or gitlab';
COMMENT ON COLUMN comments.repository IS 'owner/name on the forge';
COMMENT ON COLUMN comments.request IS 'the number of the pull or merge request';
COMMENT ON COLUMN comments.comment_id IS 'the forge''s id of the comment';
COMMENT ON COLUMN comments.digest IS 'the digest of the text as it was last rendered';
COMMENT ON COLUMN comments.updated_at IS 'when it was last written';

-- jsonb, and json when it reads a text out, refuse \u0000. No dependency has one, so it may read as another letter here.
CREATE VIEW resource_dependencies AS
SELECT states.name AS state, resources.address AS address, resources.qualifier AS qualifier, edges.value AS depends_on
FROM resources
JOIN states ON states.id = resources.state_id
JOIN resource_bodies ON resource_bodies.content_hash = resources.content_hash
CROSS JOIN LATERAL (
    SELECT replace(resource_bodies.body, '\u0000', '\ufffd')::json #> '{instances,0,dependencies}' AS list
) AS recorded
CROSS JOIN LATERAL json_array_elements_text(
    CASE WHEN json_typeof(recorded.list) = 'array' THEN recorded.list ELSE '[]' END
) AS edges (value)
WHERE resources.kind = 'object' AND resources.to_serial IS NULL;

COMMENT ON VIEW resource_dependencies IS 'The edges of every current trunk, as Terraform recorded them in the instances.';
COMMENT ON COLUMN resource_dependencies.state IS 'the name of the state';
COMMENT ON COLUMN resource_dependencies.address IS 'the instance that depends';
COMMENT ON COLUMN resource_dependencies.qualifier IS 'its deposed key; empty for the current object';
COMMENT ON COLUMN resource_dependencies.depends_on IS 'the resource that it depends on, without instance keys';
