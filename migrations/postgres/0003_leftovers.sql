-- Where the Terraform of a run works, so that a run that was cut off can be told from one that is still being worked on,
-- and what it left can be found.

CREATE TABLE run_workplaces (
    run_id uuid PRIMARY KEY REFERENCES runs (id),
    host json NOT NULL,
    dir text NOT NULL,
    process_group bigint,
    group_started bigint,
    slice_serial bigint NOT NULL,
    recorded_at timestamptz NOT NULL
);

COMMENT ON TABLE run_workplaces IS 'Where a run applies. Forgotten when the run''s own record of what it did is complete.';
COMMENT ON COLUMN run_workplaces.run_id IS 'the run';
COMMENT ON COLUMN run_workplaces.host IS 'the machine, as JSON: name, machine, boot, processes (the PID namespace)';
COMMENT ON COLUMN run_workplaces.dir IS 'the work directory on that machine';
COMMENT ON COLUMN run_workplaces.process_group IS 'the process group of the apply; null until it runs';
COMMENT ON COLUMN run_workplaces.group_started IS 'when that group''s leader started, in clock ticks since the machine did';
COMMENT ON COLUMN run_workplaces.slice_serial IS 'the serial of the trunk that the slice was cut from';
COMMENT ON COLUMN run_workplaces.recorded_at IS 'when';

ALTER TABLE run_checkpoints ADD COLUMN slice_serial bigint;

COMMENT ON COLUMN run_checkpoints.slice_serial IS 'the serial of the trunk that the slice was cut from; null: not known';
