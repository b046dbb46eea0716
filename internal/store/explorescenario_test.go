package store_test

import (
	"context"
	"errors"
	"fmt"

	"varve/internal/store"
	"varve/internal/vtest"
)

const (
	longAgo   = exploreNow - 1000 // past gc_grace where that is exploreGC
	exploreGC = 60
)

// at sets the arena's clock for what f does.
func at(now int64, f func(a *arena) error) func(a *arena) error {
	return func(a *arena) error {
		old := a.now
		a.now = now
		defer func() { a.now = old }()
		return f(a)
	}
}

func first(fs ...func(a *arena) error) func(a *arena) error {
	return func(a *arena) error {
		for _, f := range fs {
			if err := f(a); err != nil {
				return err
			}
		}
		return nil
	}
}

// deadIn has four dead rows in a partition; others are written on top.
func deadIn(p int, more ...vtest.Change) func(a *arena) error {
	return func(a *arena) error {
		if err := a.deadRows(p, 4); err != nil || len(more) == 0 {
			return err
		}
		return a.apply(a.batch(a.mutation(p, more...)))
	}
}

func write(p int, cs ...vtest.Change) func(a *arena) error {
	return func(a *arena) error { return a.apply(a.batch(a.mutation(p, cs...))) }
}

// published has a span over what is dead.
func published(p int, sweep bool) func(a *arena) error {
	return func(a *arena) error {
		if err := coalesces(p, sweep)(a, nil); err != nil {
			return err
		}
		if a.st.SpanCount(a.tab) == 0 {
			return errors.New("no span was published")
		}
		return nil
	}
}

func purges(a *arena, _ *store.ExploredThread) error { return a.st.Purge(context.Background(), a.tab) }

func sweepsRows(a *arena, _ *store.ExploredThread) error {
	return a.st.SweepRows(context.Background(), a.tab)
}

func sweepsHeads(a *arena, _ *store.ExploredThread) error {
	return a.st.SweepHeads(context.Background(), a.tab)
}

// late writes at the end, when nothing else goes on: what a deletion must still cover.
func late(p int, cs ...vtest.Change) func(a *arena) error { return write(p, cs...) }

// moves is a batch that deletes one row and inserts another.
func moves(fromP, from, toP, to int, ts int64) actor {
	return writes(func(a *arena) []vtest.Mutation {
		return []vtest.Mutation{a.mutation(fromP, deleteRow(from, ts)), a.mutation(toP, insertRow(to, ts, 0))}
	})
}

// scenarios are those of which every order of steps is tried.
func scenarios() []scenario {
	return append(append(publishScenarios(), deathScenarios()...), purgeScenarios()...)
}

// publishScenarios are writers, publishers and readers of row deletions.
func publishScenarios() []scenario {
	spanned := first(deadIn(0), published(0, false))
	return []scenario{
		{
			name: "insert, publish, read", setup: deadIn(0),
			actors: []actor{inserts(0, 2, 3, 0), coalesces(0, false), reads(false, 0, 0)},
		},
		{
			name: "insert, publish, read backwards", setup: deadIn(0),
			actors: []actor{inserts(0, 3, 3, 0), coalesces(0, false), reads(true, 0, 0)},
		},
		{
			name: "two inserts, publish", setup: deadIn(0),
			actors: []actor{inserts(0, 2, 3, 0), inserts(0, 3, 3, 0), coalesces(0, false)},
		},
		{
			name: "insert into a span, read both ways", setup: spanned,
			actors: []actor{inserts(0, 2, 3, 0), reads(false, 0, 0), reads(true, 0)},
		},
		{
			name: "insert into a span while it is published anew", setup: spanned,
			actors: []actor{inserts(0, 2, 3, 0), coalesces(0, false), reads(false, 0)},
		},
		{
			name: "late insert into a gap of a span", setup: spanned,
			actors: []actor{inserts(0, 0, 1, 0), inserts(0, 5, 1, 0), coalesces(0, false)},
		},
		{
			name: "batch moves a row out of dead ones, publish, read", setup: deadIn(0, insertRow(3, 3, 0)),
			actors: []actor{moves(0, 3, 0, 9, 4), coalesces(0, false), reads(false, 0, 0)},
		},
		{
			name: "batch moves a row into a span, read", setup: first(deadIn(0), published(0, false), write(1, insertRow(1, 1, 0))),
			actors: []actor{moves(1, 1, 0, 2, 4), reads(false, 0, 0, 1), reads(true, 0)},
		},
		{
			name: "batch moves a row between partitions, publish all, read", setup: first(deadIn(0, insertRow(3, 3, 0)), deadIn(1)),
			actors: []actor{moves(0, 3, 1, 2, 4), coalesces(-1, false), reads(false, 0)},
		},
		{
			name: "inserts in two partitions under one span", setup: first(deadIn(0), deadIn(1), published(-1, false)),
			actors: []actor{inserts(0, 2, 3, 0), inserts(1, 2, 3, 0), reads(false, 0)},
		},
		{
			name: "inserts and deletions in two partitions under one span", setup: first(deadIn(0), deadIn(1), published(-1, false)),
			actors: []actor{inserts(0, 2, 3, 0), inserts(1, 2, 3, 0), deletesLater(1, 3, 4)},
		},
		{
			name:   "insert under one span over two partitions, the other one published anew",
			setup:  first(deadIn(0), deadIn(1), published(-1, false), write(1, deleteRow(9, 1))),
			actors: []actor{inserts(0, 2, 3, 0), coalesces(1, false), reads(false, 0)},
		},
		{
			name:   "the same the other way round",
			setup:  first(deadIn(0), deadIn(1), published(-1, false), write(0, deleteRow(9, 1))),
			actors: []actor{inserts(1, 2, 3, 0), coalesces(0, false), reads(true, 1)},
		},
		{
			name: "insert, deletion, publish, read", setup: deadIn(0, insertRow(3, 3, 0)),
			actors: []actor{inserts(0, 2, 4, 0), deletes(0, 3, 4), coalesces(0, false), reads(false, 0, 0)},
		},
		{
			name: "two batches move rows, publish, read", setup: first(deadIn(0, insertRow(2, 3, 0)), deadIn(1, insertRow(3, 3, 0))),
			actors: []actor{moves(0, 2, 1, 2, 4), moves(1, 3, 0, 3, 4), coalesces(-1, false), reads(true, 0, 1, 0)},
		},
		{
			name: "two publishers, an insert", setup: deadIn(0),
			actors: []actor{coalesces(0, false), coalesces(-1, false), inserts(0, 2, 3, 0)},
		},
	}
}

// deathScenarios are the other ways to die: ranges, partitions, TTL.
func deathScenarios() []scenario {
	live := write(0, insertRow(1, 1, 0), insertRow(2, 1, 0), insertRow(3, 1, 0), insertRow(4, 1, 0))
	expired := at(longAgo, write(0, insertRow(1, 1, 10), insertRow(2, 1, 10), insertRow(3, 1, 10), insertRow(4, 1, 10)))
	return []scenario{
		{
			name: "range deletion, late insert under it, publish", setup: live,
			actors: []actor{changes(0, deleteRange(1, 4, 5)), inserts(0, 2, 3, 0), coalesces(0, true)},
		},
		{
			name: "range deletion, newer insert, publish and remove", setup: live,
			actors: []actor{changes(0, deleteRange(1, 4, 5)), inserts(0, 2, 7, 0), coalesces(0, true)},
		},
		{
			name: "range deletion, publish, read", setup: live,
			actors: []actor{changes(0, deleteRange(1, 4, 5)), coalesces(0, true), reads(false, 0, 0)},
		},
		{
			name: "insert over a range deletion, publish and remove, read", setup: first(live, write(0, deleteRange(1, 4, 5))),
			actors: []actor{inserts(0, 2, 7, 0), coalesces(0, true), reads(true, 0, 0)},
		},
		{
			name: "partition deletion, newer insert, publish and remove", setup: live,
			actors: []actor{changes(0, deletePartition(5)), inserts(0, 2, 7, 0), coalesces(0, true)},
		},
		{
			name: "insert over a partition deletion, publish all, read", setup: first(live, write(0, deletePartition(5))),
			actors: []actor{inserts(0, 2, 7, 0), coalesces(-1, true), reads(false, 0)},
		},
		{
			name: "expired rows, one refreshed, publish, read", setup: expired,
			actors: []actor{inserts(0, 2, 2, 1000), coalesces(0, false), reads(false, 0, 0)},
		},
		{
			name: "expired rows, publish, read with a clock behind", setup: expired,
			actors: []actor{coalesces(0, false), reads(false, longAgo+5-exploreNow, 0), reads(true, longAgo+5-exploreNow)},
		},
		{
			name: "expired rows under a span, one refreshed, read with a clock behind", setup: first(expired, published(0, false)),
			actors: []actor{inserts(0, 2, 2, 1000), reads(false, longAgo+5-exploreNow, 0), reads(false, 0, 0)},
		},
	}
}

// purgeScenarios remove what is past gc_grace. Writers are newer than what is
// purged: what comes later with an older timestamp may rightly come alive.
func purgeScenarios() []scenario {
	oldDead := at(longAgo, deadIn(0))
	oldRange := at(longAgo, first(
		write(0, insertRow(1, 1, 0), insertRow(2, 1, 0), insertRow(3, 1, 0), insertRow(4, 1, 0)),
		write(0, deleteRange(1, 4, 5))))
	return []scenario{
		{
			name: "deletion in a span, purge, late insert", grace: exploreGC, setup: first(oldDead, published(0, false)),
			actors: []actor{deletes(0, 2, 9), purges, reads(false, 0, 0)}, finish: late(0, insertRow(2, 8, 0)),
		},
		{
			name: "insert into a span, purge, read", grace: exploreGC, setup: first(oldDead, published(0, false)),
			actors: []actor{inserts(0, 2, 9, 0), purges, reads(false, 0, 0)},
		},
		{
			name: "deletion while a span is published, purge, late insert", grace: exploreGC, setup: oldDead,
			actors: []actor{deletes(0, 2, 9), coalesces(0, false)},
			finish: first(func(a *arena) error { return purges(a, nil) }, late(0, insertRow(2, 8, 0))),
		},
		{
			name: "publish and purge, insert", grace: exploreGC, setup: oldDead,
			actors: []actor{coalesces(0, false), purges, inserts(0, 3, 9, 0)},
		},
		{
			name: "sweep rows, insert, read", grace: exploreGC, setup: oldDead,
			actors: []actor{sweepsRows, inserts(0, 2, 9, 0), reads(false, 0, 0)},
		},
		{
			name: "sweep rows, deletion, late insert", grace: exploreGC, setup: oldDead,
			actors: []actor{sweepsRows, deletes(0, 2, 9)}, finish: late(0, insertRow(2, 8, 0)),
		},
		{
			name: "sweep heads, insert, range deletion", grace: exploreGC, setup: oldRange,
			actors: []actor{sweepsHeads, inserts(0, 2, 9, 0), changes(0, deleteRange(3, 5, 9))},
			finish: late(0, insertRow(4, 8, 0)),
		},
		{
			name: "sweep heads, publish and remove, read", grace: exploreGC, setup: oldRange,
			actors: []actor{sweepsHeads, coalesces(0, true), reads(false, 0, 0)},
		},
		{
			name: "sweep heads under a span, insert into it", grace: exploreGC, setup: first(oldRange, published(0, false)),
			actors: []actor{sweepsHeads, inserts(0, 2, 9, 0), reads(true, 0, 0)},
		},
	}
}

// broken are the rules of the protocol, each with a scenario in which breaking
// it shows.
var broken = map[store.Rule]string{
	store.RuleEpochChecked:    "batch moves a row out of dead ones, publish, read",
	store.RuleEpochFirst:      "batch moves a row out of dead ones, publish, read",
	store.RuleEpochRaised:     "batch moves a row out of dead ones, publish, read",
	store.RuleViewFirst:       "insert, publish, read",
	store.RuleDrained:         "insert, publish, read",
	store.RuleLockedPublish:   "insert, publish, read",
	store.RuleDirtyCut:        "insert, publish, read",
	store.RuleSpanClipped:     "insert under one span over two partitions, the other one published anew",
	store.RuleCutFirst:        "insert into a span, read both ways",
	store.RuleDeadRaised:      "deletion while a span is published, purge, late insert",
	store.RuleTombstoneRaised: "deletion in a span, purge, late insert",
	store.RuleRecordsOrdered:  "inserts in two partitions under one span",
}

func scenarioNamed(name string) scenario {
	for _, s := range scenarios() {
		if s.name == name {
			return s
		}
	}
	panic(fmt.Sprintf("no scenario %q", name))
}
