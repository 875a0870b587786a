-- Pull and merge requests: what became of each of their projects, and the lock on their comment. The same tables and
-- columns as in migrations/sqlite/0002_requests.sql.

-- Taken from origin by the database, so that there is one truth and an index on it.
ALTER TABLE runs
    ADD COLUMN forge text COLLATE "C" GENERATED ALWAYS AS (origin ->> 'forge') STORED,
    ADD COLUMN repository text COLLATE "C" GENERATED ALWAYS AS (origin ->> 'repository') STORED,
    ADD COLUMN request bigint GENERATED ALWAYS AS (CAST(origin ->> 'request' AS bigint)) STORED;

COMMENT ON COLUMN runs.forge IS 'github or gitlab, from origin; null outside CI';
COMMENT ON COLUMN runs.repository IS 'owner/name on the forge, from origin';
COMMENT ON COLUMN runs.request IS 'the number of the pull or merge request that it came from, from origin';

CREATE INDEX runs_request ON runs (forge, repository, request, started_at) WHERE request IS NOT NULL;
CREATE INDEX runs_spec ON runs (spec_id) WHERE spec_id IS NOT NULL;

CREATE TABLE requests (
    forge text COLLATE "C" NOT NULL,
    repository text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    head text NOT NULL,
    base_branch text NOT NULL,
    title text NOT NULL,
    phase text NOT NULL,
    from_fork boolean NOT NULL,
    merge_commit text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (forge, repository, number),
    CHECK (forge IN ('github', 'gitlab')),
    CHECK (phase IN ('open', 'merged', 'closed'))
);

COMMENT ON TABLE requests IS 'The pull and merge requests that kl has planned, as their forge last described them.';
COMMENT ON COLUMN requests.forge IS 'github or gitlab';
COMMENT ON COLUMN requests.repository IS 'owner/name on the forge';
COMMENT ON COLUMN requests.number IS 'its number';
COMMENT ON COLUMN requests.head IS 'the commit at its head';
COMMENT ON COLUMN requests.base_branch IS 'the branch that it is to be merged into';
COMMENT ON COLUMN requests.title IS 'its title, as its author wrote it';
COMMENT ON COLUMN requests.phase IS 'open, merged (for ever) or closed (may be opened again)';
COMMENT ON COLUMN requests.from_fork IS 'whether its head is in another repository';
COMMENT ON COLUMN requests.merge_commit IS 'the commit that the merge made, once it is known';
COMMENT ON COLUMN requests.created_at IS 'when kl first heard of it';
COMMENT ON COLUMN requests.updated_at IS 'when kl last heard of it';

CREATE INDEX requests_recent ON requests (forge, repository, phase, updated_at);

CREATE FUNCTION kl_requests_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.phase = 'merged' AND NEW.phase <> 'merged' THEN
        RAISE EXCEPTION 'a merged request stays merged';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER requests_guard BEFORE UPDATE ON requests FOR EACH ROW EXECUTE FUNCTION kl_requests_guard();

CREATE TABLE request_projects (
    forge text COLLATE "C" NOT NULL,
    repository text COLLATE "C" NOT NULL,
    request bigint NOT NULL,
    project text COLLATE "C" NOT NULL,
    dir text NOT NULL,
    workspace text NOT NULL,
    state_id uuid NOT NULL REFERENCES states (id),
    plan_status text,
    plan_head text,
    plan_error text,
    plan_values json,
    planned_by text,
    plan_job_url text,
    plan_check text,
    planned_at timestamptz,
    spec_id uuid REFERENCES plan_specs (id),
    spec_head text,
    run_id uuid REFERENCES runs (id),
    apply_error text,
    apply_next json,
    apply_job_url text,
    apply_check text,
    applied_at timestamptz,
    PRIMARY KEY (forge, repository, request, project),
    FOREIGN KEY (forge, repository, request) REFERENCES requests (forge, repository, number),
    CHECK (plan_status IN ('planned', 'failed', 'dropped')),
    CHECK ((plan_status IS NULL) = (plan_head IS NULL)),
    CHECK ((plan_status IS NULL) = (planned_at IS NULL)),
    CHECK ((spec_id IS NULL) = (spec_head IS NULL)),
    CHECK (plan_status <> 'planned' OR (spec_id IS NOT NULL AND spec_head = plan_head)),
    CHECK (plan_status <> 'failed' OR plan_error IS NOT NULL),
    CHECK ((applied_at IS NULL) = (apply_next IS NULL))
);

COMMENT ON TABLE request_projects IS 'The projects that a request touches: what their newest plan and their newest apply came to.';
COMMENT ON COLUMN request_projects.forge IS 'github or gitlab';
COMMENT ON COLUMN request_projects.repository IS 'owner/name on the forge';
COMMENT ON COLUMN request_projects.request IS 'the number of the pull or merge request';
COMMENT ON COLUMN request_projects.project IS 'the project''s name in kl.yaml';
COMMENT ON COLUMN request_projects.dir IS 'the root module, relative to the repository';
COMMENT ON COLUMN request_projects.workspace IS 'the Terraform workspace';
COMMENT ON COLUMN request_projects.state_id IS 'the state that it is mapped to';
COMMENT ON COLUMN request_projects.plan_status IS 'planned, failed, or dropped (no longer touched); null before the first plan job ended';
COMMENT ON COLUMN request_projects.plan_head IS 'the commit that the newest plan job was for';
COMMENT ON COLUMN request_projects.plan_error IS 'why it failed, in a sentence without secrets';
COMMENT ON COLUMN request_projects.plan_values IS 'changed attributes with values, masked, as a JSON list; null unless the project shows values';
COMMENT ON COLUMN request_projects.planned_by IS 'who planned it';
COMMENT ON COLUMN request_projects.plan_job_url IS 'the plan job''s page';
COMMENT ON COLUMN request_projects.plan_check IS 'the forge''s id of the plan''s check';
COMMENT ON COLUMN request_projects.planned_at IS 'when the plan job ended';
COMMENT ON COLUMN request_projects.spec_id IS 'the newest spec, also when a later plan failed';
COMMENT ON COLUMN request_projects.spec_head IS 'the commit that the newest spec was planned from';
COMMENT ON COLUMN request_projects.run_id IS 'the run of the newest apply; null when it was refused before there was one';
COMMENT ON COLUMN request_projects.apply_error IS 'why the apply failed, when no run says so';
COMMENT ON COLUMN request_projects.apply_next IS 'what to do next, as a JSON list of sentences';
COMMENT ON COLUMN request_projects.apply_job_url IS 'the apply job''s page';
COMMENT ON COLUMN request_projects.apply_check IS 'the forge''s id of the apply''s check';
COMMENT ON COLUMN request_projects.applied_at IS 'when the apply ended; null before';

CREATE INDEX request_projects_state ON request_projects (state_id, planned_at) WHERE spec_id IS NOT NULL;

-- A comment is locked before it is posted for the first time.
ALTER TABLE comments
    ALTER COLUMN comment_id DROP NOT NULL,
    ALTER COLUMN digest DROP NOT NULL,
    ALTER COLUMN updated_at DROP NOT NULL,
    ADD COLUMN url text,
    ADD COLUMN locked_by uuid,
    ADD COLUMN locked_until timestamptz,
    ADD CHECK ((comment_id IS NULL) = (digest IS NULL)),
    ADD CHECK ((comment_id IS NULL) = (updated_at IS NULL)),
    ADD CHECK ((locked_by IS NULL) = (locked_until IS NULL));

COMMENT ON COLUMN comments.comment_id IS 'the forge''s id of the comment; null before it was posted';
COMMENT ON COLUMN comments.url IS 'the comment''s page';
COMMENT ON COLUMN comments.locked_by IS 'the job that renders it now, by an id of its own; null when none does';
COMMENT ON COLUMN comments.locked_until IS 'when that lock ends by itself';

-- The newest versions that touched a resource: bounded work, however many lifecycles it has. Cut, because an address can
-- be longer than an index entry.
CREATE INDEX resources_resource_from ON resources (state_id, substr(resource_key, 1, 500), from_serial);
CREATE INDEX resources_resource_to ON resources (state_id, substr(resource_key, 1, 500), to_serial)
    WHERE to_serial IS NOT NULL;
DROP INDEX resources_resource_key;
