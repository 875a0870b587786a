//! `kl state rollback`: the rows of an earlier serial as a new version.

use serde_json::{Value, json};

use super::{head, target};
use crate::cli::Session;
use crate::cli::args::state::RollbackArgs;
use crate::cli::output::Output;
use crate::cli::project::Place;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::travel::{self, Rollback, TakenBack};
use crate::report::page::Page;
use crate::report::phrase::Phrase;
use crate::report::story::{Told, Tone};
use crate::report::style::bold;
use crate::report::travel::{Diff, REAL_OBJECTS};

/// Runs the command.
pub(super) async fn run(session: &Session, args: RollbackArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let name = place.state(&args.state, &session.env)?;
    let only = args.addresses.iter().map(|text| target(text)).collect::<Result<_, _>>()?;
    let (store, head) = head(session, &place, &name).await?;
    let rollback = Rollback { to: args.to, only };
    let preview = session.interruptible(travel::preview(store.as_ref(), &head, &rollback)).await?;
    let diff = Diff {
        state: &name,
        from: preview.from,
        to: args.to,
        differences: &preview.differences,
        values: args.show_values,
    };
    let document = |diff: &Diff<'_>, done: Option<&TakenBack>| -> Value {
        json!({
            "state": name,
            "from": diff.from,
            "to": args.to,
            "dry_run": args.dry_run,
            "run": done.map(|done| done.run),
            "serial": done.map(|done| done.committed.serial),
            "rows": diff.rows(),
            "warning": REAL_OBJECTS,
        })
    };
    if preview.differences.is_empty() {
        let what = if rollback.only.is_empty() { "every row is" } else { "these rows are" };
        let text = format!("Nothing to do: {what} as at serial {}", args.to);
        session.out.page(&said(Page::default(), Tone::Good, Phrase::own(text)), || document(&diff, None));
        return Ok(Exit::Done);
    }
    if args.dry_run {
        let page = warned(diff.page());
        session
            .out
            .page(&said(page, Tone::Quiet, Phrase::own("Dry run: nothing was changed")), || document(&diff, None));
        return Ok(Exit::Done);
    }
    if !args.yes {
        let refused = || KlError::usage("nothing was taken back: nobody has agreed");
        if !Output::interactive() {
            return Err(refused().hint("--dry-run shows what would change, --yes agrees to it"));
        }
        session.out.say(warned(diff.page()).terminal().trim_end());
        if !session.ask(&bold("Take these rows back? Only \"yes\" will be accepted:")).await? {
            return Err(refused());
        }
    }
    let ctx = session.context(store, &args.actor);
    let reserve = (args.reserve.lease, args.reserve.wait);
    let Some(done) = travel::rollback(&ctx, &head, &rollback, &preview, reserve).await? else {
        let text = format!("Nothing to do: somebody else has gone back to serial {} meanwhile", args.to);
        session.out.page(&said(Page::default(), Tone::Good, Phrase::own(text)), || document(&diff, None));
        return Ok(Exit::Done);
    };
    let phrase = Phrase::own(format!("Back to the rows of serial {} as serial ", args.to))
        .strong(done.committed.serial.to_string())
        .and(" by run ")
        .name(done.run.to_string());
    let diff = Diff { from: done.from, differences: &done.differences, ..diff };
    let page = said(warned(diff.page()), Tone::Good, phrase);
    session.out.page(&page, || document(&diff, Some(&done)));
    Ok(Exit::Done)
}

fn said(mut page: Page, tone: Tone, phrase: Phrase) -> Page {
    page.point(Told { tone, phrase }, Vec::new());
    page
}

/// With the warning, and what follows from it.
fn warned(page: Page) -> Page {
    let facts = "what was created since exists without being in the state, and what was destroyed since is in it without \
                 existing: look at `kl plan` afterwards, and at `kl refresh`";
    let mut page = page;
    page.point(Told { tone: Tone::Alarm, phrase: Phrase::own(REAL_OBJECTS) }, vec![Phrase::own(facts)]);
    page
}
