-- Pull and merge requests: what became of each of their projects, and the lock on their comment. The same tables and
-- columns as in migrations/postgres/0002_requests.sql.

-- Taken from origin by the database, so that there is one truth and an index on it: github or gitlab; owner/name on the
-- forge; the number of the pull or merge request that the run came from. Null outside CI.
ALTER TABLE runs ADD COLUMN forge TEXT GENERATED ALWAYS AS (origin ->> 'forge') VIRTUAL;
ALTER TABLE runs ADD COLUMN repository TEXT GENERATED ALWAYS AS (origin ->> 'repository') VIRTUAL;
ALTER TABLE runs ADD COLUMN request INTEGER GENERATED ALWAYS AS (CAST(origin ->> 'request' AS INTEGER)) VIRTUAL;

CREATE INDEX runs_request ON runs (forge, repository, request, started_at) WHERE request IS NOT NULL;
CREATE INDEX runs_spec ON runs (spec_id) WHERE spec_id IS NOT NULL;

-- The pull and merge requests that kl has planned, as their forge last described them.
CREATE TABLE requests (
    forge TEXT NOT NULL,                        -- github or gitlab
    repository TEXT NOT NULL,                   -- owner/name on the forge
    number INTEGER NOT NULL,                    -- its number
    head TEXT NOT NULL,                         -- the commit at its head
    base_branch TEXT NOT NULL,                  -- the branch that it is to be merged into
    title TEXT NOT NULL,                        -- its title, as its author wrote it
    phase TEXT NOT NULL,                        -- open, merged (for ever) or closed (may be opened again)
    from_fork INTEGER NOT NULL,                 -- whether its head is in another repository: 0 or 1
    merge_commit TEXT,                          -- the commit that the merge made, once it is known
    created_at INTEGER NOT NULL,                -- when kl first heard of it
    updated_at INTEGER NOT NULL,                -- when kl last heard of it
    PRIMARY KEY (forge, repository, number),
    CHECK (forge IN ('github', 'gitlab')),
    CHECK (phase IN ('open', 'merged', 'closed')),
    CHECK (from_fork IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_recent ON requests (forge, repository, phase, updated_at);

CREATE TRIGGER requests_stay_merged BEFORE UPDATE OF phase ON requests
WHEN OLD.phase = 'merged' AND NEW.phase <> 'merged'
BEGIN
    SELECT RAISE(ABORT, 'a merged request stays merged');
END;

-- The projects that a request touches: what their newest plan and their newest apply came to.
CREATE TABLE request_projects (
    forge TEXT NOT NULL,                        -- github or gitlab
    repository TEXT NOT NULL,                   -- owner/name on the forge
    request INTEGER NOT NULL,                   -- the number of the pull or merge request
    project TEXT NOT NULL,                      -- the project's name in kl.yaml
    dir TEXT NOT NULL,                          -- the root module, relative to the repository
    workspace TEXT NOT NULL,                    -- the Terraform workspace
    state_id TEXT NOT NULL REFERENCES states (id), -- the state that it is mapped to
    plan_status TEXT,                           -- planned, failed, or dropped (no longer touched); null before the first plan job ended
    plan_head TEXT,                             -- the commit that the newest plan job was for
    plan_error TEXT,                            -- why it failed, in a sentence without secrets
    plan_values TEXT,                           -- changed attributes with values, masked, as a JSON list; null unless the project shows values
    planned_by TEXT,                            -- who planned it
    plan_job_url TEXT,                          -- the plan job's page
    plan_check TEXT,                            -- the forge's id of the plan's check
    planned_at INTEGER,                         -- when the plan job ended
    spec_id TEXT REFERENCES plan_specs (id),    -- the newest spec, also when a later plan failed
    spec_head TEXT,                             -- the commit that the newest spec was planned from
    run_id TEXT REFERENCES runs (id),           -- the run of the newest apply; null when it was refused before there was one
    apply_error TEXT,                           -- why the apply failed, when no run says so
    apply_next TEXT,                            -- what to do next, as a JSON list of sentences
    apply_job_url TEXT,                         -- the apply job's page
    apply_check TEXT,                           -- the forge's id of the apply's check
    applied_at INTEGER,                         -- when the apply ended; null before
    PRIMARY KEY (forge, repository, request, project),
    FOREIGN KEY (forge, repository, request) REFERENCES requests (forge, repository, number),
    CHECK (plan_status IN ('planned', 'failed', 'dropped')),
    CHECK ((plan_status IS NULL) = (plan_head IS NULL)),
    CHECK ((plan_status IS NULL) = (planned_at IS NULL)),
    CHECK ((spec_id IS NULL) = (spec_head IS NULL)),
    CHECK (plan_status <> 'planned' OR (spec_id IS NOT NULL AND spec_head = plan_head)),
    CHECK (plan_status <> 'failed' OR plan_error IS NOT NULL),
    CHECK ((applied_at IS NULL) = (apply_next IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX request_projects_state ON request_projects (state_id, planned_at) WHERE spec_id IS NOT NULL;

-- A comment is locked before it is posted for the first time. SQLite cannot make a column nullable, so the table is made
-- anew; nothing refers to it.
ALTER TABLE comments RENAME TO comments_1;

-- The sticky comment of each pull or merge request: one a request.
CREATE TABLE comments (
    forge TEXT NOT NULL,                        -- github or gitlab
    repository TEXT NOT NULL,                   -- owner/name on the forge
    request INTEGER NOT NULL,                   -- the number of the pull or merge request
    comment_id TEXT,                            -- the forge's id of the comment; null before it was posted
    url TEXT,                                   -- the comment's page
    digest TEXT,                                -- the digest of the text as it was last rendered
    updated_at INTEGER,                         -- when it was last written
    locked_by TEXT,                             -- the job that renders it now, by an id of its own; null when none does
    locked_until INTEGER,                       -- when that lock ends by itself
    PRIMARY KEY (forge, repository, request),
    CHECK ((comment_id IS NULL) = (digest IS NULL)),
    CHECK ((comment_id IS NULL) = (updated_at IS NULL)),
    CHECK ((locked_by IS NULL) = (locked_until IS NULL))
) STRICT, WITHOUT ROWID;

INSERT INTO comments (forge, repository, request, comment_id, digest, updated_at)
SELECT forge, repository, request, comment_id, digest, updated_at FROM comments_1;

DROP TABLE comments_1;

-- The newest versions that touched a resource: bounded work, however many lifecycles it has. Cut as on PostgreSQL, whose
-- index entries are shorter than an address can be.
CREATE INDEX resources_resource_from ON resources (state_id, substr(resource_key, 1, 500), from_serial);
CREATE INDEX resources_resource_to ON resources (state_id, substr(resource_key, 1, 500), to_serial)
    WHERE to_serial IS NOT NULL;
DROP INDEX resources_resource_key;
