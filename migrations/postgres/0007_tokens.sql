-- Tokens of the HTTP backend: who may do what to which states.

CREATE TABLE access_tokens (
    id text PRIMARY KEY,
    name text NOT NULL,
    role text NOT NULL CHECK (role IN ('read', 'write', 'admin')),
    states text NOT NULL,
    hash text NOT NULL,
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    revoked_by text
);

COMMENT ON TABLE access_tokens IS 'Tokens by which clients of `kl serve` prove who they are. Of each only a digest is kept.';
COMMENT ON COLUMN access_tokens.id IS 'the public part of the token: 16 hexadecimal digits';
COMMENT ON COLUMN access_tokens.name IS 'what people call it; of tokens that are not revoked no two have the same';
COMMENT ON COLUMN access_tokens.role IS 'what it allows: read, write, or admin; each allows what those before it do';
COMMENT ON COLUMN access_tokens.states IS 'which states it opens: a pattern over their names';
COMMENT ON COLUMN access_tokens.hash IS 'the SHA-256 digest of the token, in hex';
COMMENT ON COLUMN access_tokens.created_at IS 'when it was made';
COMMENT ON COLUMN access_tokens.created_by IS 'who made it';
COMMENT ON COLUMN access_tokens.expires_at IS 'when it ends by itself; null: never';
COMMENT ON COLUMN access_tokens.last_used_at IS 'when it last opened something, to the minute; null: never';
COMMENT ON COLUMN access_tokens.revoked_at IS 'when it was revoked; null: it was not';
COMMENT ON COLUMN access_tokens.revoked_by IS 'who revoked it';

CREATE UNIQUE INDEX access_tokens_name ON access_tokens (name) WHERE revoked_at IS NULL;
