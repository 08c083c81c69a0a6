//! The same promises on every store: each pair of promise and store is a test of its own.

mod acquiring;
mod barrier;
mod counter;
mod cron;
mod deadlock;
mod election;
mod holding;
mod inspecting;
mod latch;
mod limiter;
mod log;
mod multilock;
mod once;
mod owner;
mod queueing;
mod releasing;
mod rwlock;
mod semaphore;
mod upgradable;

use crate::engine::Engine;

fn on(engine: Engine, promise: impl AsyncFn(&Engine)) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(promise(&engine));
}

macro_rules! on_engine {
    ($engine:ident { $($theme:ident: $($promise:ident)*;)* }) => {
        mod $engine {
            $($(
                #[test]
                fn $promise() {
                    super::on(super::Engine::$engine(), super::$theme::$promise);
                }
            )*)*
        }
    };
}

macro_rules! conformance {
    ([$($engine:ident)*] $suite:tt) => {
        $(on_engine!($engine $suite);)*
    };
    ([$($engine:ident)*] with tls [$($secured:ident)*] $suite:tt) => {
        $(on_engine!($engine $suite);)*
        $(#[cfg(feature = "tls")] on_engine!($secured $suite);)*
    };
}

conformance! {
    [mem file redis redis_prefixed redis_unix redis_handed redis_cluster redis_sentinel]
    with tls [redis_tls redis_tls_locker]
    {
        acquiring:
            a_busy_lock_is_refused_at_once_and_a_free_one_is_taken
            a_bounded_wait_ends_with_busy_and_names_the_holder
            retries_take_the_lock_once_it_is_free
            fences_grow_across_releases_and_clients_and_end_with_fencing_off
            names_in_braces_and_without_are_two_locks
            what_is_out_of_range_is_refused_and_nothing_is_sent;
        holding:
            renewal_keeps_a_lease_beyond_several_ttls
            the_deadline_is_reported_at_once_and_whenever_it_moves
            without_renewal_the_lease_is_lost_by_its_own_deadline
            the_longest_hold_ends_a_lease_that_is_renewed
            an_extension_makes_the_time_whole_and_keeps_the_fence
            a_detached_lease_is_extended_and_released_by_another_client
            a_body_that_ended_after_its_lease_was_broken_is_told_apart_from_one_that_was_alone
            a_body_runs_under_a_lease_and_the_release_is_confirmed
            a_body_is_stopped_when_its_lease_is_broken;
        releasing:
            a_release_says_when_the_lease_was_not_held_any_more
            a_dropped_lease_is_released
            a_lease_dropped_outside_a_runtime_is_released
            a_panic_releases_the_lease
            close_drains_what_was_dropped_and_refuses_what_is_new
            held_lists_the_leases_of_one_client_and_empties;
        queueing:
            a_waiter_learns_its_position_and_who_holds
            the_head_of_the_queue_is_served_first_and_a_higher_priority_before_it
            a_waiter_that_goes_away_leaves_the_queue
            every_waiter_is_served;
        inspecting:
            inspect_shows_who_holds_why_and_who_waits
            a_mutex_is_shown_as_one_and_a_free_name_as_nothing
            every_lock_is_shown_and_listed_as_what_it_is_held_as
            clients_are_listed_with_the_schedules_that_they_serve
            list_finds_the_held_locks_of_a_pattern_under_the_clients_prefix
            pages_list_every_held_lock_with_all_that_an_inspection_shows
            holder_reads_and_never_acquires
            a_break_takes_the_lock_from_its_holder_and_only_under_the_terms
            a_broken_lease_is_lost_for_its_holder_and_the_next_is_served_when_it_is_released
            a_broken_lease_that_is_not_released_lasts_until_its_deadline
            a_client_that_listens_hears_at_once_that_its_lease_was_broken;
        deadlock:
            one_owner_of_a_circle_is_told_and_the_others_go_on
            the_victim_is_the_owner_of_the_lowest_priority
            an_owner_that_waits_for_its_own_permits_is_told;
        owner:
            an_owner_holds_until_its_last_guard_ends_in_whatever_order
            guards_end_in_other_tasks_and_by_a_panic
            a_loss_is_that_of_all_guards_and_is_told_until_the_last_is_dropped
            a_broken_lease_of_an_owner_is_given_back_with_its_last_guard
            tasks_of_one_owner_that_acquire_at_once_get_one_lease
            a_lent_lease_is_extended_by_its_borrower_and_released_by_its_lender_alone
            reading_again_costs_nothing_also_while_a_writer_waits
            writing_covers_reading_and_permits_are_not_reentrant
            an_owner_upgrades_its_only_guard_and_holds_the_name_in_the_new_way;
        rwlock:
            readers_share_and_a_writer_is_alone
            readers_that_come_later_do_not_keep_a_writer_waiting
            the_release_of_a_writer_lets_in_all_readers_that_wait_behind_it
            a_waiting_writer_that_leaves_lets_in_the_readers_behind_it
            all_readers_of_a_phase_have_one_fence_between_those_of_the_writers
            a_read_is_renewed_beyond_several_ttls_and_extended
            a_read_that_is_not_renewed_is_lost_and_its_writer_comes_in
            a_dropped_read_is_released
            a_break_takes_the_lock_from_all_readers
            inspect_and_list_show_every_reader_until_its_lease_ends
            inspect_shows_what_each_waiter_asks_for
            a_detached_read_is_extended_and_released_by_another_client
            a_lent_read_is_extended_by_its_borrower_and_stays_with_the_lender
            a_writer_whose_wait_ends_learns_which_client_reads
            a_reader_with_an_option_that_it_cannot_have_is_refused_and_holds_nothing;
        upgradable:
            one_upgradable_reader_at_a_time_reads_beside_all_others
            an_upgrade_waits_for_all_readers_in_front_of_everybody
            a_try_to_upgrade_gives_the_read_back_or_passes_the_waiters
            an_upgrade_that_gives_up_keeps_its_read_and_lets_in_those_behind_it
            a_dropped_upgrade_releases_its_read_too
            a_downgrade_leaves_no_gap_and_lets_in_the_readers_that_wait
            one_lease_goes_down_and_up_with_larger_fences
            a_lease_that_is_changed_is_renewed_all_the_time
            inspect_shows_an_upgradable_reader_and_its_upgrade
            an_upgradable_read_and_a_downgrade_are_refused_with_a_count_of_replicas
            an_upgrade_of_a_read_that_is_over_says_so
            only_a_writer_of_that_name_is_downgraded;
        semaphore:
            so_many_permits_are_had_and_no_more
            a_request_for_many_is_not_overtaken_by_requests_for_few
            a_waiting_request_for_many_that_leaves_lets_in_those_behind_it
            permits_come_back_when_their_lease_expires_or_is_dropped
            a_mutex_of_that_name_waits_for_all_permits_and_keeps_others_out
            more_permits_than_there_are_is_an_error_also_for_a_waiter
            the_number_of_permits_is_pinned_and_grants_waiters_at_once
            inspect_shows_who_holds_permits_how_many_there_are_and_what_waiters_ask_for
            a_break_takes_one_hold_of_permits_by_its_fence_or_all_of_them
            detached_permits_are_extended_and_released_by_another_client
            lent_permits_are_extended_by_their_borrower_and_stay_with_the_lender
            permits_with_an_option_that_they_cannot_have_are_refused_and_not_held;
        election:
            followers_see_who_leads_and_a_resignation_makes_the_next_one_lead
            a_leader_that_has_resigned_is_never_shown
            terms_grow_from_leader_to_leader
            followers_are_told_that_nobody_leads
            followers_are_told_when_the_lease_of_a_leader_ends_by_itself
            a_campaign_that_is_dropped_leaves_nothing_in_line
            tasks_of_one_client_lead_one_after_the_other_each_with_its_value
            a_leader_and_the_holder_of_the_mutex_exclude_each_other
            a_body_runs_as_the_leader_and_is_stopped_when_the_lease_is_broken
            a_candidate_leads_again_after_a_loss_until_it_is_told_to_stop
            an_owner_that_leads_campaigns_again_and_leads_in_the_same_term
            what_an_election_cannot_have_is_refused;
        multilock:
            a_client_never_waits_for_a_name_while_it_holds_a_larger_one
            several_names_are_held_all_or_none
            the_fence_of_each_of_several_names_grows
            names_that_are_held_are_renewed_while_a_larger_one_is_waited_for
            a_wait_for_several_names_that_ends_holds_none_of_them
            a_wait_for_several_names_that_is_dropped_holds_none_of_them
            a_dropped_lease_of_several_names_is_released
            the_loss_of_one_of_several_names_is_told_and_the_others_stay_held
            several_names_that_were_broken_are_released
            an_extension_of_several_names_makes_the_time_of_each_whole
            a_name_that_is_lost_during_the_wait_for_another_is_acquired_again
            a_body_runs_while_several_names_are_held
            clients_that_take_any_names_in_any_order_never_wait_in_a_circle;
        once:
            a_body_runs_once_and_every_caller_gets_its_result
            callers_that_wait_for_a_run_are_told_its_result
            a_caller_that_need_not_wait_is_told_who_runs
            a_failure_is_shared_by_those_who_waited_and_later_callers_run_again
            the_caller_whose_body_failed_gets_the_error_itself
            a_result_can_be_a_value_that_the_record_keeps_as_json
            a_failure_that_is_kept_or_paused_is_told_to_all
            a_run_that_crashed_is_followed_by_another_or_by_none
            a_run_that_never_began_counts_as_no_attempt
            a_broken_run_that_never_began_frees_its_name_at_once
            a_broken_run_counts_as_running_until_it_ends
            another_request_under_the_same_key_is_refused
            a_run_and_a_mutex_of_that_name_exclude_each_other
            a_body_is_stopped_when_its_run_is_broken
            a_late_result_counts_only_if_no_run_has_begun_since
            a_result_of_a_mebibyte_is_kept_and_a_larger_one_is_not
            what_a_once_cannot_have_is_refused;
        cron:
            a_tick_is_run_by_one_caller_and_over_for_all_others
            names_of_which_ticks_are_known_are_listed_with_their_schedule
            a_tick_that_is_not_due_is_early_by_the_clock_of_the_store
            a_tick_that_is_too_late_is_missed_and_may_be_caught_up_with
            a_tick_is_left_out_for_all_while_the_name_is_held
            a_claim_that_waits_runs_when_the_name_is_free
            a_claim_that_waits_misses_its_tick_when_that_is_too_late
            only_if_that_was_asked_for_a_run_follows_one_that_crashed
            a_tick_whose_run_never_began_is_for_others
            a_broken_run_of_a_tick_counts_as_running_and_frees_its_name_when_it_never_began
            the_run_of_a_tick_and_a_mutex_of_that_name_exclude_each_other
            the_run_of_a_tick_learns_that_it_was_broken
            a_late_end_counts_unless_another_run_has_begun
            what_a_cron_cannot_have_is_refused;
        latch:
            all_who_wait_at_a_latch_go_on_when_the_last_party_has_arrived
            a_party_counts_once_and_a_latch_that_no_party_has_reached_is_closed
            a_latch_with_another_count_or_a_bad_one_is_refused;
        barrier:
            all_parties_pass_together_generation_after_generation
            a_party_that_gives_up_does_not_count_and_the_others_wait_on
            a_party_that_crashed_counts_until_the_end_of_its_lease
            a_barrier_with_another_number_of_parties_or_a_bad_one_is_refused;
        limiter:
            all_clients_together_use_the_burst_and_no_more
            those_who_wait_act_at_the_rate_and_not_sooner
            a_wait_that_would_take_too_long_is_refused_at_once_and_reserves_nothing
            a_wait_that_is_dropped_gives_back_what_it_has_reserved
            what_a_limiter_cannot_allow_is_refused_and_nothing_is_sent;
        counter:
            the_changes_of_many_tasks_of_several_clients_add_up
            a_number_is_replaced_only_if_it_is_the_expected_one
            a_sum_that_needs_more_than_64_bits_is_refused_and_the_number_stays
            a_counter_with_a_ttl_begins_anew_after_it
            a_change_of_a_late_holder_is_refused_and_does_not_count
            a_counter_that_is_asked_for_in_a_bad_way_is_refused;
        log:
            a_break_with_a_reason_is_in_the_log_and_its_holder_reads_it
            a_loss_that_no_operator_brought_about_has_no_operator
            a_fact_that_three_hosts_see_is_one_entry
            a_client_writes_once_a_second_and_counts_what_it_leaves_out;
    }
}

// On a quorum these are not promised:
// - order, places and priorities: a queue is nothing that a majority could agree on, so no waiter is in one;
// - `list`: each node knows other locks, and no majority has agreed on any list;
// - what else reads the queue to know that a client waits, needs a list or a builder of one store: `quorum` has tests
//   of its own for that.
conformance! {
    [quorum_of_3 quorum_of_5_with_2_dead]
    {
        acquiring:
            a_busy_lock_is_refused_at_once_and_a_free_one_is_taken
            a_bounded_wait_ends_with_busy_and_names_the_holder
            retries_take_the_lock_once_it_is_free
            fences_grow_across_releases_and_clients_and_end_with_fencing_off
            names_in_braces_and_without_are_two_locks;
        holding:
            renewal_keeps_a_lease_beyond_several_ttls
            the_deadline_is_reported_at_once_and_whenever_it_moves
            without_renewal_the_lease_is_lost_by_its_own_deadline
            the_longest_hold_ends_a_lease_that_is_renewed
            an_extension_makes_the_time_whole_and_keeps_the_fence
            a_detached_lease_is_extended_and_released_by_another_client
            a_body_that_ended_after_its_lease_was_broken_is_told_apart_from_one_that_was_alone
            a_body_runs_under_a_lease_and_the_release_is_confirmed
            a_body_is_stopped_when_its_lease_is_broken;
        releasing:
            a_release_says_when_the_lease_was_not_held_any_more
            a_lease_dropped_outside_a_runtime_is_released
            a_panic_releases_the_lease
            close_drains_what_was_dropped_and_refuses_what_is_new
            held_lists_the_leases_of_one_client_and_empties;
        owner:
            an_owner_holds_until_its_last_guard_ends_in_whatever_order
            guards_end_in_other_tasks_and_by_a_panic
            a_loss_is_that_of_all_guards_and_is_told_until_the_last_is_dropped
            tasks_of_one_owner_that_acquire_at_once_get_one_lease
            a_lent_lease_is_extended_by_its_borrower_and_released_by_its_lender_alone;
        inspecting:
            a_mutex_is_shown_as_one_and_a_free_name_as_nothing
            holder_reads_and_never_acquires;
        log:
            a_break_with_a_reason_is_in_the_log_and_its_holder_reads_it
            a_loss_that_no_operator_brought_about_has_no_operator
            a_client_writes_once_a_second_and_counts_what_it_leaves_out;
        multilock:
            several_names_are_held_all_or_none
            the_fence_of_each_of_several_names_grows
            names_that_are_held_are_renewed_while_a_larger_one_is_waited_for
            a_wait_for_several_names_that_ends_holds_none_of_them
            a_wait_for_several_names_that_is_dropped_holds_none_of_them
            a_dropped_lease_of_several_names_is_released
            the_loss_of_one_of_several_names_is_told_and_the_others_stay_held
            several_names_that_were_broken_are_released
            an_extension_of_several_names_makes_the_time_of_each_whole
            a_name_that_is_lost_during_the_wait_for_another_is_acquired_again
            a_body_runs_while_several_names_are_held
            clients_that_take_any_names_in_any_order_never_wait_in_a_circle;
    }
}
