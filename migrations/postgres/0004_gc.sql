-- What `kl gc` needs: where the history of a state begins, timelines that may go with their run, and indexes for the
-- foreign keys that are looked at when something goes.

ALTER TABLE states ADD COLUMN history_from bigint NOT NULL DEFAULT 0;

COMMENT ON COLUMN states.history_from IS 'the first serial that can still be read again; `kl gc` has removed what was before; only grows';

CREATE OR REPLACE FUNCTION kl_states_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.lineage IS NOT NULL AND NEW.lineage IS DISTINCT FROM OLD.lineage THEN
        RAISE EXCEPTION 'the lineage of a state never changes';
    END IF;
    IF NEW.serial < OLD.serial THEN
        RAISE EXCEPTION 'the serial of a state only grows';
    END IF;
    IF NEW.history_from < OLD.history_from OR NEW.history_from > NEW.serial THEN
        RAISE EXCEPTION 'what was removed from the history of a state does not come back, and its newest version stays';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION kl_run_events_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND EXISTS (SELECT 1 FROM runs WHERE id = OLD.run_id AND ended_at IS NOT NULL) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'run_events is append-only, and goes only with a run that has ended';
END
$$;

CREATE INDEX resources_content ON resources (content_hash);
CREATE INDEX resource_reservations_run ON resource_reservations (run_id);
CREATE INDEX state_versions_spec ON state_versions (spec_id) WHERE spec_id IS NOT NULL;
CREATE INDEX request_projects_spec ON request_projects (spec_id) WHERE spec_id IS NOT NULL;
CREATE INDEX request_projects_run ON request_projects (run_id) WHERE run_id IS NOT NULL;

-- Each job makes its own checks, and the forge shows the newest of a name: their ids are of no use.
ALTER TABLE request_projects DROP COLUMN plan_check;
ALTER TABLE request_projects DROP COLUMN apply_check;
