-- Tokens of the HTTP backend: who may do what to which states.

-- Tokens by which clients of `kl serve` prove who they are. Of each only a digest is kept.
CREATE TABLE access_tokens (
    id TEXT PRIMARY KEY NOT NULL,               -- the public part of the token: 16 hexadecimal digits
    name TEXT NOT NULL,                         -- what people call it; of tokens that are not revoked no two have the same
    role TEXT NOT NULL CHECK (role IN ('read', 'write', 'admin')), -- what it allows: read, write, or admin; each allows what those before it do
    states TEXT NOT NULL,                       -- which states it opens: a pattern over their names
    hash TEXT NOT NULL,                         -- the SHA-256 digest of the token, in hex
    created_at INTEGER NOT NULL,                -- when it was made
    created_by TEXT NOT NULL,                   -- who made it
    expires_at INTEGER,                         -- when it ends by itself; null: never
    last_used_at INTEGER,                       -- when it last opened something, to the minute; null: never
    revoked_at INTEGER,                         -- when it was revoked; null: it was not
    revoked_by TEXT                             -- who revoked it
) STRICT;

CREATE UNIQUE INDEX access_tokens_name ON access_tokens (name) WHERE revoked_at IS NULL;
