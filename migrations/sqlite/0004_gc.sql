-- What `kl gc` needs: where the history of a state begins, timelines that may go with their run, and indexes for the
-- foreign keys that are looked at when something goes.

ALTER TABLE states ADD COLUMN history_from INTEGER NOT NULL DEFAULT 0; -- the first serial that can still be read again; `kl gc` has removed what was before; only grows

CREATE TRIGGER states_history_only_shrinks BEFORE UPDATE OF history_from ON states
WHEN NEW.history_from < OLD.history_from OR NEW.history_from > NEW.serial
BEGIN
    SELECT RAISE(ABORT, 'what was removed from the history of a state does not come back, and its newest version stays');
END;

DROP TRIGGER run_events_are_never_removed;

CREATE TRIGGER run_events_go_with_an_ended_run BEFORE DELETE ON run_events
WHEN NOT EXISTS (SELECT 1 FROM runs WHERE id = OLD.run_id AND ended_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'run_events is append-only, and goes only with a run that has ended');
END;

CREATE INDEX resources_content ON resources (content_hash);
CREATE INDEX resource_reservations_run ON resource_reservations (run_id);
CREATE INDEX state_versions_spec ON state_versions (spec_id) WHERE spec_id IS NOT NULL;
CREATE INDEX request_projects_spec ON request_projects (spec_id) WHERE spec_id IS NOT NULL;
CREATE INDEX request_projects_run ON request_projects (run_id) WHERE run_id IS NOT NULL;

-- Each job makes its own checks, and the forge shows the newest of a name: their ids are of no use.
ALTER TABLE request_projects DROP COLUMN plan_check;
ALTER TABLE request_projects DROP COLUMN apply_check;
