//! One suite for both databases. Each case is named once below, with the methods of [`Store`] that it is about, and runs
//! as `conformance::sqlite::<case>` and `conformance::postgres::<case>`.

mod check;
mod comments;
mod commits;
mod fixture;
mod footprints;
mod garbage;
mod locks;
mod opening;
mod patience;
mod races;
mod recoveries;
mod requests;
mod reservations;
mod runs;
mod schema;
mod states;
#[expect(clippy::disallowed_methods, reason = "tests read the environment and the clock")]
#[path = "../../../tests/support/database.rs"]
mod support;
mod tokens;
mod views;

use super::StoreError;
use fixture::Fixture;

/// What is wrong in the database of a test at its end.
async fn unsound(url: &str) -> Vec<String> {
    let store = match super::open_existing(&url.parse().unwrap()).await {
        Ok(store) => store,
        // Nothing was ever stored in it.
        Err(StoreError::Missing { .. } | StoreError::SchemaTooOld { found: 0, .. }) => return Vec::new(),
        Err(error) => return vec![error.to_string()],
    };
    store.database_check().await.unwrap().violations.iter().take(10).map(|one| format!("{one:?}")).collect()
}

/// Declares the cases: `file::case covers method, …;`.
macro_rules! cases {
    ($($file:ident :: $case:ident covers $($method:ident),+;)+) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$file::$case(&super::Fixture::sqlite().await).await;
                }
            )+
        }

        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    if let Some(fixture) = super::Fixture::postgres().await {
                        super::$file::$case(&fixture).await;
                    }
                }
            )+
        }

        /// Each case: its source, its name, the methods that it claims.
        const CASES: &[(&str, &str, &[&str])] =
            &[$((include_str!(concat!(stringify!($file), ".rs")), stringify!($case), &[$(stringify!($method)),+])),+];
    };
}

cases! {
    states::the_clock_is_the_databases covers now;
    states::names_are_compared_exactly covers state_find, state_ensure, state_list;
    states::two_creators_get_the_same_state covers state_ensure;
    states::what_does_not_exist_is_not_found covers
        snapshot, rows_changed_since, version_list, spec_find, run_find, event_list, reservation_list;
    states::lineage_and_serial_are_guarded covers run_commit;

    runs::a_spec_comes_back_as_it_was_stored covers spec_insert, spec_find;
    runs::a_run_comes_back_as_it_was_recorded covers run_start, run_find, run_tools;
    runs::runs_are_found_by_parts_of_their_ids covers run_search;
    runs::runs_are_listed_newest_first covers run_list;
    runs::a_run_moves_only_while_it_lives covers run_advance, run_end;
    runs::events_keep_their_order_and_cannot_be_changed covers event_append, event_list;
    runs::the_newest_checkpoint_counts covers checkpoint_put, checkpoint_find;
    runs::a_failed_run_keeps_what_it_changed_reserved covers run_end, quarantine_release, reservation_list;
    runs::an_aborted_run_keeps_what_its_checkpoint_says covers run_abort, event_list;
    runs::a_run_that_is_cut_off_keeps_all_that_it_began_with covers checkpoint_find, event_append;
    runs::what_an_aborted_run_changed_afterwards_is_kept_too covers run_end, run_abort;
    runs::a_recovery_takes_the_quarantine_over covers quarantine_adopt, checkpoint_find, run_abort;
    runs::a_recovery_does_not_come_beside_live_runs covers quarantine_adopt;
    runs::a_recovery_that_is_cut_off_keeps_all_that_it_took_over covers quarantine_adopt, run_abort;
    runs::where_a_run_works_is_on_record_until_it_is_forgotten covers
        workplace_put, workplace_find, workplace_forget, run_commit;
    runs::a_run_that_ended_and_has_a_workplace_was_cut_off covers run_cut_off;
    runs::while_terraform_may_go_on_all_that_it_may_write_is_kept covers run_abort, run_end, workplace_put;

    recoveries::what_another_machine_may_know_stays_with_the_run covers quarantine_adopt, run_commit, run_abort;
    recoveries::what_becomes_known_later_is_quarantined_again covers quarantine_add;
    recoveries::what_changed_without_having_been_planned_is_kept covers run_end;
    recoveries::the_checkpoint_that_goes_over_is_told covers quarantine_adopt, checkpoint_put;

    reservations::only_reads_go_together covers reservation_acquire;
    reservations::a_run_never_blocks_itself covers reservation_acquire;
    reservations::all_are_granted_or_none covers reservation_acquire, reservation_list;
    reservations::a_grant_names_its_neighbours covers reservation_acquire;
    reservations::an_ended_lease_is_taken_by_who_needs_it covers reservation_acquire, event_list;
    reservations::a_lost_run_keeps_what_its_checkpoint_says covers reservation_acquire, checkpoint_put;
    reservations::a_lost_lease_commits_nothing covers run_commit, reservation_renew;
    reservations::a_late_renewal_counts_while_nobody_took_the_lease covers reservation_renew;
    reservations::waiters_are_served_in_order covers reservation_acquire, reservation_list;
    reservations::a_waiter_that_died_holds_up_nobody covers reservation_acquire, reservation_list;
    reservations::who_gives_back_before_asking_for_more_is_not_waited_for covers reservation_return;
    reservations::ten_thousand_at_once covers reservation_acquire, reservation_renew, run_commit, snapshot;

    commits::versions_follow_each_other covers run_commit, version_list, snapshot;
    commits::a_commit_stands_on_the_timeline_with_its_version covers run_commit, event_list;
    commits::what_was_recovered_of_a_spec_is_found covers recovered_versions, applied_version;
    commits::every_version_of_a_run_is_found covers versions_of_runs;
    commits::of_two_first_writers_one_wins covers run_commit;
    commits::what_changes_nothing_is_skipped covers run_commit, version_list;
    commits::every_serial_can_be_read_again covers snapshot;
    commits::changes_since_a_serial_name_their_versions covers rows_changed_since;
    commits::what_stood_in_a_row_at_a_serial_is_found covers row_contents;
    commits::soft_rows_are_taken_only_where_nothing_stands_against_it covers run_commit;
    commits::bodies_and_documents_come_back_to_the_letter covers run_commit, snapshot;
    commits::dependencies_can_be_queried covers run_commit;
    commits::an_import_keeps_its_serial covers run_commit, version_list, snapshot;

    locks::a_plain_lock_and_runs_keep_each_other_out covers lock_take, lock_find, lock_free;
    locks::a_plain_terraform_that_asks_again_waits_in_turn covers lock_take, lock_free;
    locks::who_stood_in_the_way_of_a_plain_terraform_is_on_record covers lock_take, run_find;
    locks::a_plain_terraform_has_no_place_behind_a_quarantine covers lock_take;
    locks::a_place_that_no_terraform_comes_back_to_is_free covers lock_take, lock_free, run_abort;
    locks::a_state_is_written_by_the_holder_of_its_lock_alone covers lock_write, lock_free;
    locks::a_lock_for_one_write_is_taken_and_given_back_at_once covers lock_once;
    locks::a_lock_that_is_taken_away_is_the_lock_alone covers lock_free, run_abort;
    locks::of_many_that_lock_at_once_one_wins covers lock_take;

    tokens::a_token_comes_back_as_it_was_made covers token_insert, token_find, token_list;
    tokens::of_tokens_that_are_not_revoked_no_two_have_the_same_name covers token_insert, token_revoke;
    tokens::a_token_ends_by_its_time_or_when_it_is_revoked covers token_find, token_revoke;
    tokens::the_use_of_a_token_is_noted covers token_used, token_find;

    footprints::the_history_of_a_footprint_is_of_its_rows_alone covers versions_touching;
    footprints::the_history_of_modules_and_of_their_instances_is_whole covers versions_touching;
    footprints::a_version_that_only_removed_a_deposed_object_belongs_to_its_instance covers versions_touching;
    footprints::a_long_history_is_searched_from_its_end covers versions_touching;
    footprints::addresses_longer_than_an_index_entry_have_a_history covers versions_touching;

    views::pages_of_runs_follow_each_other covers run_page;
    views::an_outline_leaves_out_single_resources covers event_outline, event_outlines;
    views::timelines_of_many_runs_are_those_of_each covers event_lists;
    views::specs_of_many_runs_are_those_of_each covers spec_list;
    views::every_row_names_the_version_that_made_it_so covers row_origins;
    views::the_rows_that_a_pattern_meets_are_found_among_all_others covers row_origins;

    requests::a_request_comes_back_as_the_forge_described_it covers request_put, request_find;
    requests::a_merged_request_stays_merged covers request_put;
    requests::requests_are_listed_with_the_last_news_first covers request_list;
    requests::a_plan_comes_back_as_it_was_recorded covers plan_result_put, request_projects;
    requests::a_result_for_another_head_changes_nothing covers plan_result_put, project_drop;
    requests::the_newest_spec_outlives_plans_that_fail covers plan_result_put, request_spec;
    requests::projects_that_are_no_longer_touched_are_dropped covers project_drop;
    requests::an_apply_comes_back_as_it_was_recorded covers apply_result_put, request_projects;
    requests::results_of_what_does_not_exist_are_refused covers plan_result_put, project_drop, apply_result_put;
    requests::open_specs_are_those_that_may_still_be_applied covers open_specs;
    requests::runs_are_found_by_their_request covers runs_of_request;

    comments::a_comment_is_locked_before_it_exists covers comment_lock, comment_save, comment_unlock, comment_find;
    comments::only_who_holds_the_lock_writes_the_comment covers comment_lock, comment_save;

    races::of_overlapping_requests_one_wins covers reservation_acquire;
    races::disjoint_runs_all_commit covers reservation_acquire, run_commit, version_list;
    races::a_snapshot_is_one_moment covers snapshot;
    races::events_of_one_run_get_places_of_their_own covers event_append;

    races::of_many_that_would_render_a_comment_one_does covers comment_lock, comment_save, comment_unlock;
    races::news_of_one_request_at_once_leave_one_whole covers request_put, plan_result_put, apply_result_put;

    patience::a_lost_connection_does_everything_once covers patient, with_mishaps, event_append, run_commit;
    patience::a_commit_that_outlasts_the_last_tries_is_known_to_be_made covers patient, run_commit;
    patience::without_patience_a_lost_connection_is_an_error covers with_mishaps, run_commit;
    patience::patience_ends_with_its_limit_and_soon_after_a_stop covers patient;
    patience::connections_that_are_cut_lose_and_double_nothing covers patient, event_append;

    schema::migrating_again_does_nothing covers migrate, schema_check;
    schema::a_newer_schema_is_refused covers migrate, schema_check;
    schema::every_column_is_documented covers schema_check;

    check::a_sound_database_is_told_from_every_broken_one covers database_check;
    check::more_than_can_be_told_is_counted_and_not_told covers database_check;

    garbage::what_is_old_goes_and_what_is_kept_can_be_read covers
        garbage_count, garbage_remove, snapshot, rows_changed_since;
    garbage::what_may_still_be_needed_keeps_its_history covers garbage_count, garbage_remove;
    garbage::requests_go_when_nothing_is_to_be_applied_any_more covers garbage_count, garbage_remove;
    garbage::who_began_and_died_is_lost covers garbage_count, garbage_remove;
    garbage::commits_go_on_beside_it covers garbage_remove;
}

/// The names of the trait's methods, as its source has them.
fn methods() -> Vec<&'static str> {
    let source = include_str!("../mod.rs");
    let (_, body) = source.split_once("pub trait Store").expect("the trait");
    body.lines()
        .take_while(|line| *line != "}")
        .filter_map(|line| {
            let signature = line.strip_prefix("    async fn ").or_else(|| line.strip_prefix("    fn "))?;
            signature.split('(').next()
        })
        .collect()
}

#[test]
fn every_method_of_the_store_has_a_case() {
    let methods = methods();
    assert!(methods.len() >= 20, "the trait's source was not understood: {methods:?}");
    let uncovered: Vec<_> =
        methods.iter().filter(|method| !CASES.iter().any(|(_, _, covered)| covered.contains(method))).collect();
    assert!(uncovered.is_empty(), "no conformance case claims {uncovered:?}: add one to the list in this file");
}

#[test]
fn every_case_calls_the_methods_that_it_claims() {
    let methods = methods();
    for (source, case, claimed) in CASES {
        // The case itself, and the helpers that stand before the first case of its file.
        let mut parts = source.split("\npub(super) async fn ");
        let helpers = parts.next().unwrap_or_default();
        let body = parts.find(|part| part.starts_with(&format!("{case}("))).expect(case);
        for method in *claimed {
            let call = format!(".{method}(");
            assert!(methods.contains(method), "{case} claims {method}, which Store does not have");
            assert!(body.contains(&call) || helpers.contains(&call), "{case} claims {method} and does not call it");
        }
    }
}
