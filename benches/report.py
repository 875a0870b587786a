"""Writes a month's work of a busy team as SQL: report.py sqlite|postgres RUNS SPEC_DOCUMENT_FILE

Two states, ten actors, requests, plans that are overtaken, refusals that are tried again, waiting, failures with a
quarantine, recoveries, locks of a plain terraform. Made by a generator of numbers with a fixed beginning: the same every
time.
"""
import datetime
import hashlib
import json
import random
import sys
import uuid

backend, number, document = sys.argv[1], int(sys.argv[2]), open(sys.argv[3], encoding="utf-8").read()
dice = random.Random(7)
END = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.timezone.utc)
ACTORS = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy"]


def text(value):
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


def when(at):
    if at is None:
        return "NULL"
    return str(int(at.timestamp() * 1e6)) if backend == "sqlite" else f"'{at.isoformat()}'"


def blob(data):
    return f"X'{data.hex()}'" if backend == "sqlite" else f"'\\x{data.hex()}'"


def insert(table, **columns):
    print(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(columns.values())});")


def ident():
    return str(uuid.UUID(int=dice.getrandbits(128), version=4))


def iso(at):
    return at.isoformat().replace("+00:00", "Z")


print("BEGIN;")
start = END - datetime.timedelta(days=30)
body = hashlib.sha256(b"body").digest()
insert("resource_bodies", content_hash=blob(body), body=text('{"instances":[{}]}'))
states = []
for name in ["shop/prod", "shop/network"]:
    state = {"id": ident(), "serial": 0, "open": {}}
    states.append(state)
    insert("states", id=text(state["id"]), name=text(name), secret=text("00" * 32), created_at=when(start))
modules = ["web", "api", "queue", "search", "mail", "billing", "login", "images"]
addresses = [f'module.{module}.aws_{kind}.{name}' for module in modules for kind in ["instance", "lb", "security_group"] for name in ['this', 'blue["eu-west-1a"]', 'green["eu-west-1b"]']]
shared = ["aws_vpc.main", "aws_subnet.private[0]", "aws_subnet.private[1]", "aws_iam_role.deploy", "data.aws_ami.base"]
tools = json.dumps({"program": "terraform", "version": "1.11.4", "providers": {}})


class Run:
    def __init__(self, state, actor, request, at, kind="apply", writes=None, reads=None):
        self.id, self.state, self.actor, self.at, self.kind = ident(), state, actor, at, kind
        self.origin = {}
        if request:
            self.origin = {"forge": "github", "repository": "acme/shop", "request": request, "job_url": f"https://github.com/acme/shop/actions/runs/{9000 + request}", "job": str(request)}
        if writes is None:
            module = dice.choice(modules)
            writes = sorted(dice.sample([a for a in addresses if f".{module}." in a], dice.randint(1, 5)))
        self.writes, self.reads = writes, dice.sample(shared, dice.randint(0, 3)) if reads is None else reads
        self.events, self.conflict, self.spec, self.result, self.error = [], [], None, None, None
        self.source = state["serial"]
        self.clock = at
        if kind == "apply":
            self.spec = ident()

    def after(self, seconds):
        self.clock += datetime.timedelta(seconds=seconds)
        return self

    def event(self, kind, **members):
        self.events.append((self.clock, kind, {"kind": kind, **members}))
        return self

    def claims(self):
        return [{"pattern": p, "mode": "write"} for p in self.writes] + [{"pattern": p, "mode": "read"} for p in self.reads]

    def begins(self):
        if self.spec:
            self.event("spec_loaded", spec=self.spec, source_serial=self.source, trunk_serial=self.state["serial"])
        self.after(dice.uniform(0.1, 1))
        return self

    def holds(self, beside):
        others = [{"run": o.id, "actor": o.actor, "relation": "disjoint"} for o in beside]
        self.event("stale_check_passed", outside=[])
        self.event("reserved", writes=len(self.writes), reads=len(self.reads), expires_at=iso(self.clock + datetime.timedelta(minutes=15)), beside=others)
        self.after(dice.uniform(2, 8)).event("lane_chosen", lane="narrow", reasons=[], slice_rows=len(self.writes) + 3, trunk_rows=400, targets=len(self.writes))
        self.after(dice.uniform(2, 20)).event("replanned", relation="identical", differences=[])
        self.event("apply_started")
        return self

    def works(self, failed=False):
        for address in self.writes:
            self.event("resource", address=address, action="update", step="started", elapsed_seconds=0)
            took = dice.randint(1, 40)
            self.after(took).event("resource", address=address, action="update", step="failed" if failed else "finished", elapsed_seconds=took)
        return self.event("apply_finished", success=not failed)

    def commits(self):
        state = self.state
        state["serial"] += 1
        self.result = state["serial"]
        self.event("committed", serial=self.result, rows_opened=len(self.writes), rows_closed=len(self.writes))
        return self.ends("committed")

    def ends(self, status):
        self.status, self.end = status, self.clock
        return self

    def store(self):
        if self.spec and self.spec not in stored:
            stored.add(self.spec)
            insert("plan_specs", id=text(self.spec), state_id=text(self.state["id"]), source_serial=str(self.source), actor=text(self.actor), origin=text(json.dumps(self.origin)), digest=text("d"), document=text(document), created_at=when(self.at))
        insert("runs", id=text(self.id), state_id=text(self.state["id"]), kind=text(self.kind), status=text(self.status), actor=text(self.actor), origin=text(json.dumps(self.origin)), spec_id=text(self.spec), source_serial=str(self.source), tools=text(tools), claims=text(json.dumps(self.claims())), started_at=when(self.at), ended_at=when(self.end), result_serial=str(self.result) if self.result else "NULL", error=text(self.error), conflict=text(json.dumps(self.conflict)))
        for seq, (at, kind, event) in enumerate(self.events, 1):
            insert("run_events", run_id=text(self.id), seq=str(seq), at=when(at), kind=text(kind), event=text(json.dumps(event)))
        if self.result:
            touched = dice.sample(addresses, 4) if self.kind == "plain" else self.writes
            insert("state_versions", state_id=text(self.state["id"]), serial=str(self.result), source_serial=str(self.source), committed_at=when(self.end), actor=text(self.actor), origin=text(json.dumps(self.origin)), run_id=text(self.id), spec_id=text(self.spec), source=text({"plain": "http"}.get(self.kind, self.kind)), mode=text("snapshot" if self.kind == "plain" else "row-delta"), terraform_version=text("1.11.4"), document=text("[]"), providers=text("{}"), rows_opened=str(len(touched)), rows_closed="0")
            for address in touched:
                key = hashlib.sha256(f"object {address}".encode()).digest()
                if address in self.state["open"]:
                    print(f"UPDATE resources SET to_serial = {self.result} WHERE state_id = {text(self.state['id'])} AND row_key = {blob(key)} AND to_serial IS NULL;")
                self.state["open"][address] = True
                insert("resources", state_id=text(self.state["id"]), row_key=blob(key), kind=text("object"), address=text(address), content_hash=blob(body), from_serial=str(self.result))


stored = set()
made = 0
at = start
busy = []
request = 100
while made < number:
    # Bursts of work with long pauses between them.
    at += datetime.timedelta(seconds=dice.choice([3, 10, 20, 40, 60, 90, 8000]) * dice.uniform(0.3, 1.7) * 2000 / number)
    state = states[0] if dice.random() < 0.7 else states[1]
    actor = dice.choice(ACTORS)
    request += 1
    busy = [r for r in busy if r.end > at]
    beside = [r for r in busy if r.state is state]
    kind = dice.random()
    run = Run(state, actor, request if dice.random() < 0.85 else None, at).begins()
    holder = next((r for r in beside if set(r.writes) & set(run.writes + run.reads) or set(run.writes) & set(r.reads) or r.kind == "plain"), None)
    if holder and kind < 0.6:
        met = [c for c in run.claims()][:2]
        run.conflict = [{"reservation": {"run": holder.id, "holder": holder.actor, "origin": holder.origin, "claim": {"pattern": holder.writes[0], "mode": "write"}, "held_as": "run", "asked_at": iso(holder.at), "acquired_at": iso(holder.at), "expires_at": iso(holder.at + datetime.timedelta(minutes=15)), "ticket": 1}, "met": met, "at": iso(run.clock)}]
        run.error = f"{holder.writes[0]} is reserved by {holder.actor}"
        run.ends("conflict").store()
        made += 1
        if dice.random() < 0.7 and made < number:
            again = Run(state, actor, run.origin.get("request"), holder.end + datetime.timedelta(seconds=dice.randint(5, 600)), writes=run.writes, reads=run.reads)
            again.spec = run.spec
            again.begins().holds([]).works().commits().store()
            busy.append(again)
            made += 1
        continue
    if holder:
        run.event("waiting", behind=[holder.id])
        run.after(max(1.0, (holder.end - run.clock).total_seconds())).holds([]).works().commits()
    elif kind > 0.97:
        run.event("stale_check_failed", read=[{"row": dice.choice(shared), "serial": max(1, state["serial"] - 1), "run": None, "actor": dice.choice(ACTORS)}], write=[], revalidate=False)
        run.ends("stale")
        run.error = "the plan no longer holds"
    elif kind > 0.955:
        run.holds(beside).works(failed=True).event("quarantined", addresses=run.writes[:1])
        run.error = "terraform apply failed\n  because aws_instance.this: UnauthorizedOperation"
        run.ends("failed")
    elif kind > 0.94:
        run.spec = None
        run.kind, run.writes, run.reads = "plain", ["*"], []
        run.events = []
        run.event("locked", id=run.id, operation="OperationTypeApply", who=f"{actor}@laptop").after(dice.randint(20, 200)).event("unlocked", by=actor, forced=False).commits()
    elif kind > 0.91:
        run.holds(beside).after(2).ends("noop")
    else:
        run.holds(beside).works().commits()
    run.store()
    busy.append(run)
    made += 1
for state in states:
    print(f"UPDATE states SET lineage = 'l-{state['id']}', serial = {state['serial']} WHERE id = {text(state['id'])};")
print("COMMIT;")
