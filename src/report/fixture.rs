//! Requests built by hand for the examples: specs, runs, reservations and everything around them.

mod runs;

use chrono::{DateTime, Duration, TimeZone as _, Utc};
use uuid::Uuid;

use super::view::{ChangedValue, ForecastView, HistoryLine, PlanView, PlannedView, ProjectView, RequestView};
use crate::domain::address::{Address, Pattern};
use crate::domain::coordination::forecast::{ForecastRelation, forecast};
use crate::domain::coordination::reservation::{AccessMode, Blocker, Claim, HeldAs, Reservation};
use crate::domain::coordination::staleness::Staleness;
use crate::domain::id::{Actor, Lineage, RunId, Serial, SpecId, StateName};
use crate::domain::plan::action::Action;
use crate::domain::plan::fingerprint::Fingerprint;
use crate::domain::plan::spec::{
    DataEntry, Digests, EdgeSource, FORMAT_VERSION, LaneFacts, OutputEntry, PlanMode, PlanSpec, ReadEntry, Scope,
    SpecProject, SpecState, Via, WriteEntry,
};
use crate::domain::request::{ForgeKind, RequestPhase, RequestRef};
use crate::domain::run::event::{ChangedRow, RowVersion};
use crate::domain::run::{Origin, Tools};
use crate::domain::state::Touched;
pub(super) use runs::{aftermath, apply, beginning, committed, conflicted, lost, merged, quarantined, run};

pub(super) const HEAD: &str = "4f2d91c07b3e5a6688d0c1b2a3f4e5d6c7b8a990";

/// So many seconds after the moment at which every story begins.
pub(super) fn at(seconds: i64) -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 9, 14, 0, 0).unwrap() + Duration::seconds(seconds)
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x0195_7b2c_0000_7000_8000_0000_0000_0000 + number)
}

pub(super) fn run_id(number: u128) -> RunId {
    RunId(id(number))
}

pub(super) fn actor(name: &str) -> Actor {
    Actor(name.to_owned())
}

pub(super) fn tools() -> Tools {
    let providers =
        [("registry.terraform.io/hashicorp/aws", "5.91.0"), ("registry.terraform.io/hashicorp/random", "3.7.1")];
    Tools {
        program: "terraform".to_owned(),
        version: "1.11.4".to_owned(),
        providers: providers.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect(),
    }
}

/// A spec, piece by piece.
pub(super) struct Plan(PlanSpec);

impl Plan {
    pub(super) fn new(state: &str) -> Self {
        Self(PlanSpec {
            format_version: FORMAT_VERSION,
            id: SpecId(id(7_000)),
            state: SpecState {
                name: StateName::new(state).unwrap(),
                lineage: Some(Lineage("5a2c".to_owned())),
                serial: Serial(41),
            },
            actor: actor("alice"),
            origin: Origin::default(),
            project: SpecProject {
                dir: "infra/network".to_owned(),
                workspace: "default".to_owned(),
                var_files: Vec::new(),
                variables: Vec::new(),
                ephemeral: Vec::new(),
            },
            scope: Scope::default(),
            tools: tools(),
            write: Vec::new(),
            outputs: Vec::new(),
            read: Vec::new(),
            data: Vec::new(),
            digests: Digests::default(),
            lane: LaneFacts::default(),
            digest: String::new(),
        })
    }

    pub(super) fn edit(mut self, edit: impl FnOnce(&mut PlanSpec)) -> Self {
        edit(&mut self.0);
        self
    }

    pub(super) fn entry(mut self, entry: WriteEntry) -> Self {
        self.0.write.push(entry);
        self
    }

    pub(super) fn write(self, address: &str, actions: Action, changed: &[&str], place: &str) -> Self {
        self.entry(entry(address, actions, changed, place))
    }

    pub(super) fn output(mut self, name: &str, actions: Action) -> Self {
        self.0.outputs.push(OutputEntry { name: name.to_owned(), actions, print: Fingerprint::default() });
        self
    }

    pub(super) fn read(mut self, pattern: &str, from: &str) -> Self {
        let pattern = Pattern::parse(pattern).unwrap();
        self.0.read.push(ReadEntry { pattern, via: via(from) });
        self
    }

    pub(super) fn data(mut self, pattern: &str, from: &str) -> Self {
        let pattern = Pattern::parse(pattern).unwrap();
        self.0.data.push(DataEntry { pattern, via: Some(via(from)), deferred: false });
        self
    }

    pub(super) fn destroy(mut self) -> Self {
        self.0.scope.mode = PlanMode::Destroy;
        self
    }

    pub(super) fn spec(mut self) -> PlanSpec {
        self.0.write.sort_by(|a, b| a.address.cmp(&b.address));
        self.0.sealed()
    }
}

fn via(from: &str) -> Via {
    Via { from: from.to_owned(), source: EdgeSource::Configuration, through: Vec::new() }
}

pub(super) fn entry(address: &str, actions: Action, changed: &[&str], place: &str) -> WriteEntry {
    WriteEntry {
        address: Address::parse(address).unwrap(),
        deposed: None,
        actions,
        moved_from: None,
        import_id: None,
        reason: None,
        replace_paths: None,
        print: Fingerprint {
            changed: changed.iter().map(|name| (*name).to_owned()).collect(),
            ..Fingerprint::default()
        },
        place: (!place.is_empty()).then(|| place.to_owned()),
    }
}

/// The plan of a small change to a network.
pub(super) fn network() -> PlanSpec {
    let replaced = WriteEntry {
        reason: Some("replace_because_cannot_update".to_owned()),
        replace_paths: Some("[[\"availability_zone\"]]".to_owned()),
        ..entry(
            "aws_subnet.private[\"b\"]",
            Action::DeleteCreate,
            &["arn", "availability_zone", "id"],
            "infra/network/subnets.tf:21",
        )
    };
    Plan::new("prod/network")
        .write("aws_route_table.private", Action::Update, &["route", "tags"], "infra/network/routes.tf:8")
        .write("aws_subnet.private[\"c\"]", Action::Create, &["cidr_block"], "infra/network/subnets.tf:21")
        .write("module.nat.aws_eip.this", Action::Create, &["domain"], "modules/nat/main.tf:3")
        .write("module.nat.aws_nat_gateway.this", Action::Create, &["subnet_id"], "modules/nat/main.tf:9")
        .entry(replaced)
        .output("private_subnet_ids", Action::Update)
        .read("aws_vpc.main", "aws_subnet.private")
        .read("aws_subnet.public", "module.nat.aws_nat_gateway.this")
        .data("data.aws_availability_zones.here", "aws_subnet.private")
        .spec()
}

pub(super) fn planned(spec: PlanSpec) -> PlannedView {
    PlannedView {
        trunk_serial: spec.state.serial,
        spec,
        values: Vec::new(),
        head: HEAD.to_owned(),
        at: at(0),
        job_url: Some("https://github.com/acme/infra/actions/runs/901".to_owned()),
        since: Staleness::default(),
        in_the_way: Vec::new(),
        beside: Vec::new(),
        forecast: Vec::new(),
        history: Vec::new(),
        known: Some(
            ["aws_vpc.main", "aws_subnet.public[0]", "aws_route_table.private", "aws_subnet.private[\"b\"]"]
                .map(|text| Address::parse(text).unwrap())
                .to_vec(),
        ),
    }
}

pub(super) fn project(name: &str, plan: PlanView) -> ProjectView {
    ProjectView {
        name: name.to_owned(),
        dir: format!("infra/{name}"),
        workspace: "default".to_owned(),
        state: StateName::new(format!("prod/{name}")).unwrap(),
        plan,
        apply: None,
    }
}

pub(super) fn request_ref(number: u64) -> RequestRef {
    RequestRef { forge: ForgeKind::Github, repository: "acme/infra".to_owned(), number }
}

pub(super) fn request(projects: Vec<ProjectView>) -> RequestView {
    RequestView {
        request: request_ref(7),
        head: HEAD.to_owned(),
        phase: RequestPhase::Open,
        now: at(95),
        projects,
        server_url: Some("https://github.com".to_owned()),
    }
}

pub(super) fn small() -> RequestView {
    request(vec![project("network", PlanView::Planned(Box::new(planned(network()))))])
}

pub(super) fn origin(number: u64) -> Origin {
    Origin {
        forge: Some("github".to_owned()),
        repository: Some("acme/infra".to_owned()),
        request: Some(number),
        commit: Some(HEAD.to_owned()),
        job_url: None,
        job: None,
    }
}

pub(super) fn reservation(pattern: &str, mode: AccessMode, held_as: HeldAs) -> Reservation {
    Reservation {
        run: run_id(12),
        holder: actor("bob"),
        origin: origin(12),
        claim: Claim { pattern: Pattern::parse(pattern).unwrap(), mode },
        held_as,
        asked_at: at(-250),
        acquired_at: Some(at(-250)),
        expires_at: (held_as == HeldAs::Run).then(|| at(650)),
        ticket: 4,
    }
}

pub(super) fn blocker(pattern: &str, held_as: HeldAs, met: &[&str]) -> Blocker {
    Blocker {
        reservation: reservation(pattern, AccessMode::Write, held_as),
        met: met.iter().map(|pattern| Claim::read(Pattern::parse(pattern).unwrap())).collect(),
        at: at(0),
    }
}

/// A row that two have changed.
pub(super) fn changed_twice(row: &str) -> ChangedRow {
    let one = |serial, who: &str, request: Option<u64>, attributes: &[&str]| RowVersion {
        serial: Serial(serial),
        run: Some(run_id(12)),
        actor: actor(who),
        origin: Origin {
            forge: Some("github".to_owned()),
            repository: Some("acme/infra".to_owned()),
            request,
            ..Origin::default()
        },
        touched: Some(Touched::Changed),
        moved_from: None,
        moved_to: None,
        attributes: attributes.iter().map(|name| (*name).to_owned()).collect(),
        more: 0,
    };
    let versions = vec![one(41, "ann", Some(17), &["input", "output"]), one(42, "bob", None, &["tags"])];
    ChangedRow { versions, ..changed_row(row) }
}

pub(super) fn changed_row(row: &str) -> ChangedRow {
    ChangedRow::by(row.to_owned(), Serial(42), Some(run_id(12)), actor("bob"))
}

/// Another open request whose spec claims this.
pub(super) fn other(number: u64, title: &str, ours: &PlanSpec, writes: &[&str], reads: &[&str]) -> ForecastView {
    let claim = |text: &&str| Pattern::parse(text).unwrap();
    let theirs: Vec<Claim> =
        writes.iter().map(claim).map(Claim::write).chain(reads.iter().map(claim).map(Claim::read)).collect();
    let (relation, meetings) = forecast(&ours.claims(), &theirs);
    ForecastView {
        phase: RequestPhase::Open,
        request: request_ref(number),
        title: title.to_owned(),
        actor: actor("bob"),
        spec: SpecId(id(u128::from(number))),
        relation,
        meetings,
    }
}

/// A request with neighbours in every relation.
pub(super) fn neighbours() -> RequestView {
    let spec = network();
    let forecast = vec![
        other(9, "Add the staging cluster", &spec, &["aws_eks_cluster.staging"], &["aws_vpc.main"]),
        other(
            11,
            "Open a port for metrics",
            &spec,
            &["aws_security_group_rule.metrics"],
            &["aws_subnet.private[\"c\"]"],
        ),
        other(12, "Renumber the network", &spec, &["aws_vpc.main"], &[]),
        other(
            15,
            "NAT gateways for all [zones](http://e.x)",
            &spec,
            &["module.nat.aws_eip.this", "module.nat.aws_nat_gateway.this"],
            &[],
        ),
    ];
    let relations: Vec<ForecastRelation> = forecast.iter().map(|other| other.relation).collect();
    assert_eq!(
        relations,
        [
            ForecastRelation::Independent,
            ForecastRelation::TheyReadOurs,
            ForecastRelation::WeReadTheirs,
            ForecastRelation::BothWrite
        ]
    );
    let history = vec![HistoryLine {
        serial: Serial(38),
        at: at(-86_400),
        actor: actor("bob"),
        request: Some(request_ref(3)),
        run: Some(run_id(3)),
        source: "apply",
        rows: vec!["aws_vpc.main".to_owned(), "aws_route_table.private".to_owned()],
    }];
    let planned = PlannedView {
        forecast,
        history,
        beside: vec![reservation("aws_iam_role.deploy", AccessMode::Write, HeldAs::Run)],
        ..planned(spec)
    };
    request(vec![project("network", PlanView::Planned(Box::new(planned)))])
}

/// What cases B41 and B43 found others to break on.
pub(super) const HOSTILE: &str =
    "```\n</details><h1>x</h1>\n@example-org/everyone ~~~ <!-- our-marker -->\n/close\n::error::x";

/// Hostile text wherever text from outside can be.
pub(super) fn hostile() -> RequestView {
    let key = "a|b`@alice [x](javascript:0) </details>";
    let address = format!("aws_instance.web[{}]", crate::domain::address::quoted(key));
    let named = WriteEntry {
        place: Some("infra/</td>|`x.tf:3".to_owned()),
        ..entry(&address, Action::Update, &["tags|`", "</code>"], "")
    };
    let plan = Plan::new("prod/</summary>|net`work").entry(named).read(&address, &address);
    let spec = plan.edit(|spec| spec.actor = actor("@everyone</b>\n/merge")).spec();
    let values = vec![
        ChangedValue {
            address: address.clone(),
            attribute: "user_data".to_owned(),
            before: Some(serde_json::to_string(HOSTILE).unwrap()),
            after: None,
        },
        ChangedValue {
            address,
            attribute: "environment".to_owned(),
            before: None,
            after: Some(
                r#"[{"name":"SOME_API_KEY","value":"hunter2-not-real"},{"name":"MODE","value":"open"}]"#.to_owned(),
            ),
        },
    ];
    let mut other = other(15, HOSTILE, &spec, &["aws_instance.web"], &[]);
    other.actor = actor(HOSTILE);
    let mut held = blocker("aws_instance.web", HeldAs::Run, &["aws_instance.web"]);
    held.reservation.holder = actor(HOSTILE);
    let planned = PlannedView { values, forecast: vec![other], in_the_way: vec![held], ..planned(spec) };
    let failed = PlanView::Failed { error: HOSTILE.to_owned(), head: HEAD.to_owned(), job_url: None, at: at(5) };
    request(vec![project("we</summary>|b`", PlanView::Planned(Box::new(planned))), project("@alice", failed)])
}

/// A plan of many changes.
pub(super) fn many(changes: usize) -> RequestView {
    // Sealing so many takes its time, and nothing here looks at digests.
    let mut spec = Plan::new("prod/dns").spec();
    for number in 0..changes {
        let address = format!("module.zone[\"{}\"].aws_route53_record.this[\"host-{number}\"]", number % 7);
        let action = match number % 500 {
            0 => Action::Delete,
            1..30 => Action::Update,
            _ => Action::Create,
        };
        spec.write.push(entry(&address, action, &["records", "ttl"], "modules/zone/main.tf:14"));
    }
    spec.write.sort_by(|a, b| a.address.cmp(&b.address));
    request(vec![project("dns", PlanView::Planned(Box::new(planned(spec))))])
}
