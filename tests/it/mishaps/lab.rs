//! Worlds in which something goes wrong: copies of one that was prepared, each with a database of its own.

use std::fs;

use camino::Utf8PathBuf;

use super::meets;
use super::points::{BUSY, try_at_once};
use crate::harness::database::Database;
use crate::harness::kl::Kl;
use crate::harness::site::Site;

/// Every object leaves a line behind for each time that it is made: the line is its reality. `second` fails while the
/// file `broken` exists. The place is no part of the plan, so that a plan holds in every copy.
const CONFIGURATION: &str = r#"
resource "terraform_data" "first" {
  input = 1
  provisioner "local-exec" {
    command = "echo made >> $REALITY/first"
  }
}
resource "terraform_data" "second" {
  input = terraform_data.first.output
  provisioner "local-exec" {
    command = "test ! -e $REALITY/broken && echo made >> $REALITY/second"
  }
}
"#;

/// What all worlds of a test begin with.
pub(super) struct Lab {
    base: World,
}

impl Lab {
    /// A configuration, and a database in which nothing is.
    pub(super) fn new(database: &Database) -> Self {
        Self::with(database, &[("live/main.tf", CONFIGURATION)], |_| ())
    }

    /// A plan of both objects.
    pub(super) fn planned(database: &Database) -> Self {
        Self::with(database, &[("live/main.tf", CONFIGURATION)], |world| drop(world.plan().exits(0)))
    }

    /// A plan of both objects, whose apply is to salvage at once what it had done when it failed.
    pub(super) fn salvaging(database: &Database) -> Self {
        let policy = ("kl.yaml", "policies: { on_failure: salvage }\n");
        Self::with(database, &[("live/main.tf", CONFIGURATION), policy], |world| drop(world.plan().exits(0)))
    }

    /// What an apply of that plan has left that failed half-way.
    pub(super) fn failed(database: &Database) -> Self {
        Self::with(database, &[("live/main.tf", CONFIGURATION)], |world| {
            drop(world.plan().exits(0));
            world.breaks();
            let said = world.apply().exits(1).stderr;
            assert!(said.contains("local-exec"), "{said}");
            world.is_mended();
        })
    }

    /// These files, and what was made of them.
    pub(super) fn with(database: &Database, files: &[(&str, &str)], prepare: impl FnOnce(&World)) -> Self {
        let site = Site::on(database);
        for (path, text) in files {
            site.write(path, text);
        }
        fs::create_dir(site.path("reality")).unwrap();
        // SQLite has no file before it is used.
        drop(site.kl().args(["db", "migrate"]).exits(0));
        let base = World::copy(&site, database);
        prepare(&base);
        Self { base }
    }

    /// A world of its own.
    pub(super) fn world(&self) -> World {
        World::copy(&self.base.site, &self.base.database)
    }

    /// Tries something at every point, several at once, each in a world of its own; in each all ends well.
    pub(super) fn try_all(&self, points: &[String], attempt: impl Fn(&World, &str) + Sync) {
        self.try_all_at_once(BUSY, points, attempt);
    }

    /// The same for what waits more than it works.
    pub(super) fn try_all_at_once(&self, at_once: usize, points: &[String], attempt: impl Fn(&World, &str) + Sync) {
        try_at_once(at_once, points, |_, point| {
            let world = self.world();
            attempt(&world, point);
            everything_ended(&world.database);
            world.is_cleared();
        });
    }
}

/// One state with its objects. Its database is looked through when it goes.
pub(super) struct World {
    pub(super) database: Database,
    pub(super) site: Site,
}

impl World {
    fn copy(site: &Site, database: &Database) -> Self {
        let database = database.copy();
        Self { site: site.copy(&database), database }
    }

    fn reality(&self) -> Utf8PathBuf {
        self.site.path("reality")
    }

    /// How often an object was made, a line for each time.
    pub(super) fn made(&self, object: &str) -> String {
        fs::read_to_string(self.reality().join(object)).unwrap_or_default()
    }

    pub(super) fn kl(&self, command: &str) -> Kl {
        self.site.kl().arg(command).env("REALITY", self.reality().as_str())
    }

    pub(super) fn plan(&self) -> Kl {
        self.kl("plan").args(["live", "--out", self.site.path("spec.json").as_str()])
    }

    pub(super) fn apply(&self) -> Kl {
        self.kl("apply").args([self.site.path("spec.json").as_str(), "--dir", "live"])
    }

    pub(super) fn breaks(&self) {
        fs::write(self.reality().join("broken"), "").unwrap();
    }

    pub(super) fn is_mended(&self) {
        drop(fs::remove_file(self.reality().join("broken")));
    }

    /// Applies with a mishap. Gives the exit code; none when it was killed.
    pub(super) fn meets(&self, mishap: &str) -> Option<i32> {
        meets(self.apply().args(["--lease", "1s"]), mishap)
    }

    /// The one command that brings everything back in step, and that it did.
    pub(super) fn comes_back(&self, mishap: &str) {
        let said = self.apply().args(["--wait", "1m"]).exits(0);
        let listed = self.kl("state").args(["list", "live"]).exits(0).stdout;
        for object in ["first", "second"] {
            assert!(listed.contains(&format!("terraform_data.{object}")), "{mishap}: {listed} {said:?}");
            assert_eq!(self.made(object), "made\n", "{mishap}: {object} {said:?}");
        }
    }

    /// What the dead have left is cleared away, by the next command at the latest.
    fn is_cleared(&self) {
        if !self.site.leftovers().is_empty() {
            self.site.write("elsewhere/main.tf", "# Nothing is to be made here.\n");
            drop(self.kl("plan").arg("elsewhere").exits(0));
        }
        assert_eq!(self.site.leftovers(), Vec::<String>::new());
    }
}

/// Nothing is live, and nothing is reserved.
pub(crate) fn everything_ended(database: &Database) {
    let one = |sql: &str| database.value(sql).unwrap_or_default();
    // One that was killed before it had reserved anything is in nobody's way; `kl gc` ends it.
    assert_eq!(one("SELECT count(*) FROM runs WHERE ended_at IS NULL AND status <> 'started'"), "0", "live runs");
    assert_eq!(one("SELECT count(*) FROM resource_reservations WHERE released_at IS NULL"), "0", "reservations");
}
