package exec

import (
	"strings"
	"testing"
	"time"

	"varve/internal/cqlwire"
)

// TestNestedOperations plans deeply nested terms that cannot be resolved. Work
// that doubles with each level would never end; the limit is far above what
// any machine needs for work that does not.
func TestNestedOperations(t *testing.T) {
	te := newTestEngine(t)
	te.exec(t, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	const levels, limit = 200, 20 * time.Second
	for _, open := range []string{"1 * (", "-(", "abs(", "(int)(", "1 + 1 * ("} {
		e := strings.Repeat(open, levels) + "? + 1" + strings.Repeat(")", levels)
		for _, q := range []string{
			"SELECT * FROM t WHERE k = " + e, "SELECT " + e + " FROM t", "INSERT INTO t (k, v) VALUES (1, " + e + ")",
		} {
			start := time.Now()
			if _, err := te.query(q, &Params{Consistency: cqlwire.One}); err == nil {
				t.Errorf("%.40s… succeeds without a value for its marker", q)
			}
			if d := time.Since(start); d > limit {
				t.Fatalf("%.40s… took %v", q, d)
			}
			t.Logf("%.40s… %v", q, time.Since(start))
		}
	}
}
