package exec

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"varve/internal/cql"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

// TestGuardrails sets each guardrail to warn above 2 and fail above 4, and
// compares what a client is told with Cassandra's words.
func TestGuardrails(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int, c int, c2 int, v text, l list<int>, s set<int>, m map<int, text>, fs frozen<set<int>>, PRIMARY KEY (k, c, c2))")
	te.exec(t, "CREATE TABLE one (k int PRIMARY KEY, a int, b int, c int)")
	te.exec(t, "CREATE TYPE u (a int, b int)")
	for _, tc := range []struct {
		g          Guardrail
		warn, fail string // statements
		warning    string
		failure    string
	}{
		{
			GuardColumnValueSize, "INSERT INTO t (k, c, c2, v) VALUES (1, 1, 1, 'abc')", "UPDATE t SET v = 'abcde' WHERE k = 1 AND c = 1 AND c2 = 1",
			"Value of column 'v' has size 3, this exceeds the warning threshold of 2.",
			"Value of column 'v' has size 5, this exceeds the failure threshold of 4.",
		},
		{
			GuardItemsPerCollection, "INSERT INTO t (k, c, c2, l) VALUES (1, 1, 1, [1, 2, 3])", "UPDATE t SET s = s + {1, 2, 3, 4, 5} WHERE k = 1 AND c = 1 AND c2 = 1",
			"Detected collection l with 3 items, this exceeds the warning threshold of 2.",
			"Detected collection s with 5 items, this exceeds the failure threshold of 4.",
		},
		{
			GuardItemsPerCollection, "INSERT INTO t (k, c, c2, m) VALUES (1, 1, 1, {1: 'a', 2: 'b', 3: 'c'})", "INSERT INTO t (k, c, c2, fs) VALUES (1, 1, 1, {1, 2, 3, 4, 5})",
			"Detected collection m with 3 items, this exceeds the warning threshold of 2.",
			"Detected collection fs with 5 items, this exceeds the failure threshold of 4.",
		},
		{
			GuardPartitionKeysInSelect, "SELECT * FROM one WHERE k IN (1, 2, 3)", "SELECT * FROM one WHERE k IN (1, 2, 3, 4, 5)",
			"Query with partition keys in IN clause on table one, with number of partition keys 3 exceeds warning threshold of 2.",
			"Aborting query with partition keys in IN clause on table one, number of partition keys 5 exceeds fail threshold of 4.",
		},
		{
			GuardInSelectCartesianProduct, "SELECT * FROM one WHERE k IN (1, 2, 3)", "SELECT * FROM t WHERE k = 1 AND c IN (1, 2, 3) AND c2 IN (1, 2)",
			"The cartesian product of the IN restrictions on partition key produces 3 values, this exceeds warning threshold of 2.",
			"Aborting query because the cartesian product of the IN restrictions on clustering key produces 6 values, this exceeds fail threshold of 4.",
		},
		{
			GuardColumnsPerTable, "CREATE TABLE w1 (k int PRIMARY KEY, a int, b int)", "ALTER TABLE one ADD d int",
			"The table w1 has 3 columns, this exceeds the warning threshold of 2.",
			"Tables cannot have more than 4 columns, but 5 provided for table one",
		},
		{
			GuardFieldsPerUDT, "ALTER TYPE u ADD c int", "CREATE TYPE u5 (a int, b int, c int, d int, e int)",
			"The user type u has 3 columns, this exceeds the warning threshold of 2.",
			"User types cannot have more than 4 columns, but 5 provided for user type u5.",
		},
		{
			GuardTables, "", "CREATE TABLE w2 (k int PRIMARY KEY); CREATE TABLE w3 (k int PRIMARY KEY)", "",
			"Cannot have more than 4 tables, aborting the creation of table w3",
		},
		{
			GuardKeyspaces, "CREATE KEYSPACE k3 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "", "", "",
		},
		{
			GuardSecondaryIndexesPerTable, "CREATE INDEX ON one (a); CREATE INDEX ON one (b); CREATE INDEX named ON one (c)", "",
			"Creating secondary index named on table one, current number of indexes 3 exceeds warning threshold of 2.", "",
		},
		{
			GuardVectorDimensions, "CREATE TABLE w4 (k int PRIMARY KEY, e vector<float, 3>)", "CREATE TABLE w5 (k int PRIMARY KEY, e frozen<list<vector<float, 5>>>)",
			"e has a vector of 3 dimensions, this exceeds the warning threshold of 2.",
			"e has a vector of 5 dimensions, this exceeds the failure threshold of 4.",
		},
	} {
		rails := &te.Limits().Guardrails
		rails.Set(tc.g, 2, 4)
		run := func(text string) (*Result, error) {
			var res *Result
			var err error
			for _, st := range strings.Split(text, "; ") {
				if res, err = te.query(st, one()); err != nil {
					break
				}
			}
			return res, err
		}
		if tc.warn != "" {
			res, err := run(tc.warn)
			want := "Guardrail " + tc.g.Name() + " violated: " + tc.warning
			if err != nil || tc.warning != "" && (len(res.Warnings) == 0 || res.Warnings[len(res.Warnings)-1] != want && res.Warnings[0] != want) {
				t.Errorf("%s: %v, %+v, want %s", tc.warn, err, res, want)
			}
		}
		if tc.fail != "" {
			_, err := run(tc.fail)
			var we *cqlwire.Error
			want := "Guardrail " + tc.g.Name() + " violated: " + tc.failure
			if !errors.As(err, &we) || we.Code != cqlwire.ErrInvalid || we.Message != want || len(we.Warnings) != 1 || we.Warnings[0] != want {
				t.Errorf("%s: %v, want %s", tc.fail, err, want)
			}
		}
		rails.Set(tc.g, -1, -1)
		if rails.armed.Load() {
			t.Fatalf("%s: still armed", tc.g.Name())
		}
	}
}

func TestGuardPageSizeAndCollectionSize(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, l list<text>, f frozen<list<text>>)")
	rails := &te.Limits().Guardrails
	rails.Set(GuardPageSize, 10, 100)
	p := one()
	p.PageSize = 11
	res, err := te.query("SELECT * FROM t", p)
	if want := "Guardrail page_size violated: Query for table t with page size 11 exceeds warning threshold of 10."; err != nil || len(res.Warnings) != 1 || res.Warnings[0] != want {
		t.Errorf("%v %+v, want %s", err, res, want)
	}
	p.PageSize = 101
	if _, err := te.query("SELECT * FROM t", p); err == nil || !strings.Contains(err.Error(), "Aborting query for table t, page size 101 exceeds fail threshold of 100.") {
		t.Error(err)
	}
	if _, err := te.query("SELECT * FROM system.local", p); err != nil {
		t.Errorf("a driver's read of a system table: %v", err)
	}
	rails.Set(GuardPageSize, 0, 0)
	rails.Set(GuardCollectionSize, 30, 60)
	res = te.exec(t, "INSERT INTO t (k, l) VALUES (1, ['abcd'])") // 16 + 16 + 4
	if len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "Detected collection l of size 36, this exceeds the warning threshold of 30.") {
		t.Errorf("%v", res.Warnings)
	}
	if _, err := te.query("INSERT INTO t (k, f) VALUES (1, ['"+strings.Repeat("x", 60)+"'])", one()); err == nil {
		t.Error("a frozen collection over the limit was taken")
	}
}

// TestGuardFlags forbids each feature in turn.
func TestGuardFlags(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int, c int, l list<int>, v int, PRIMARY KEY (k, c))")
	te.exec(t, "CREATE INDEX ON t (v)")
	te.exec(t, "INSERT INTO t (k, c, l) VALUES (1, 1, [1, 2])")
	for _, tc := range []struct {
		f          GuardFlag
		text, want string
	}{
		{
			FlagAllowFiltering, "SELECT * FROM t WHERE c = 1 ALLOW FILTERING", "Guardrail allow_filtering violated: Querying with ALLOW FILTERING is not allowed. " +
				"ALLOW FILTERING can potentially visit all the data in the table and have unpredictable performance.",
		},
		{FlagAlterTable, "ALTER TABLE t DROP v", "Guardrail alter_table violated: ALTER TABLE changing columns is not allowed"},
		{FlagDropKeyspace, "DROP KEYSPACE ks", "Guardrail drop_keyspace_enabled violated: DROP KEYSPACE functionality is not allowed"},
		{FlagDropTruncateTable, "TRUNCATE t", "Guardrail drop_truncate_table_enabled violated: DROP and TRUNCATE TABLE functionality is not allowed"},
		{FlagDropTruncateTable, "DROP TABLE t", "Guardrail drop_truncate_table_enabled violated: DROP and TRUNCATE TABLE functionality is not allowed"},
		{FlagGroupBy, "SELECT k, count(*) FROM t GROUP BY k", "Guardrail group_by violated: GROUP BY functionality is not allowed"},
		{
			FlagNonPartitionRestrictedIndexQuery, "SELECT * FROM t WHERE v = 1", "Guardrail non_partition_restricted_index_query_enabled violated: " +
				"Non-partition key restricted query is not allowed. Executing a query on secondary indexes without partition key restriction might degrade performance",
		},
		{
			FlagReadBeforeWriteListOperations, "UPDATE t SET l[0] = 5 WHERE k = 1 AND c = 1",
			"Guardrail read_before_write_list_operations violated: Setting of list items by index requiring read before write is not allowed",
		},
		{
			FlagReadBeforeWriteListOperations, "UPDATE t SET l = l - [1] WHERE k = 1 AND c = 1",
			"Guardrail read_before_write_list_operations violated: Removal of list items requiring read before write is not allowed",
		},
		{
			FlagReadBeforeWriteListOperations, "DELETE l[0] FROM t WHERE k = 1 AND c = 1",
			"Guardrail read_before_write_list_operations violated: Removal of list items by index requiring read before write is not allowed",
		},
		{FlagSecondaryIndexes, "CREATE INDEX x ON t (c)", "Guardrail secondary_indexes violated: Creating secondary indexes is not allowed"},
		{FlagSimpleStrategy, "CREATE KEYSPACE n WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "Guardrail simplestrategy violated: SimpleStrategy is not allowed"},
		{FlagUncompressedTables, "CREATE TABLE n (k int PRIMARY KEY) WITH compression = {'enabled': 'false'}", "Guardrail uncompressed_tables_enabled violated: Uncompressed table is not allowed"},
		{FlagUserTimestamps, "INSERT INTO t (k, c) VALUES (1, 2) USING TIMESTAMP 5", "Guardrail user_timestamps violated: User provided timestamps (USING TIMESTAMP) is not allowed"},
		{FlagVectorType, "CREATE TABLE n (k int PRIMARY KEY, e vector<float, 2>)", "Guardrail vector_type_enabled violated: e is not allowed"},
	} {
		te.Limits().Guardrails.Allow(tc.f, false)
		_, err := te.query(tc.text, one())
		if err == nil || err.Error() != tc.want && !strings.HasSuffix(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.text, err, tc.want)
		}
		te.Limits().Guardrails.Allow(tc.f, true)
	}
	for _, text := range []string{"SELECT * FROM t WHERE c = 1 ALLOW FILTERING", "UPDATE t SET l[0] = 5 WHERE k = 1 AND c = 1", "DROP TABLE t"} {
		te.exec(t, text)
	}
}

// TestGuardBatch: warnings of a batch's statements reach the client, and equal ones come once.
func TestGuardBatch(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v text)")
	var buf bytes.Buffer
	te.opts.Logger = slog.New(slog.NewTextHandler(&buf, nil))
	te.Limits().Guardrails.Set(GuardColumnValueSize, 2, 0)
	items := []BatchItem{{Text: "INSERT INTO t (k, v) VALUES (1, 'abc')"}, {Text: "INSERT INTO t (k, v) VALUES (2, 'abc')"}, {Text: "INSERT INTO t (k, v) VALUES (2, 'abcd')"}}
	for range 2 {
		res, err := settled(te.Batch(context.Background(), te.session, cql.LoggedBatch, items, one()))
		if err != nil || len(res.Warnings) != 2 {
			t.Fatalf("%v %+v", err, res)
		}
	}
	if res := te.exec(t, "BEGIN BATCH INSERT INTO t (k, v) VALUES (1, 'abc'); INSERT INTO t (k, v) VALUES (2, 'x'); APPLY BATCH"); len(res.Warnings) != 1 {
		t.Errorf("%v", res.Warnings)
	}
	if n := strings.Count(buf.String(), "\n"); n != 2 {
		t.Errorf("%d lines logged, want each message once:\n%s", n, buf.String())
	}
}

// TestGuardSuperuser: guardrails hold for ordinary users alone where users log in.
func TestGuardSuperuser(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v text)")
	te.opts.Auth = true
	te.session.Role = schema.DefaultSuperuser
	te.exec(t, "CREATE ROLE somebody WITH LOGIN = true")
	te.exec(t, "GRANT ALL ON KEYSPACE ks TO somebody")
	te.Limits().Guardrails.Set(GuardColumnValueSize, 0, 2)
	for role, want := range map[string]bool{schema.DefaultSuperuser: true, "somebody": false} {
		te.session.Role = role
		_, err := te.query("INSERT INTO t (k, v) VALUES (1, 'abc')", one())
		if (err == nil) != want {
			t.Errorf("%s: %v", role, err)
		}
	}
}
