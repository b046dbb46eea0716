package schema

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// checkReopens checks that the catalogue's records give an equal snapshot, and
// that it can go on.
func checkReopens(t *testing.T, c *Catalog) {
	t.Helper()
	again, err := Open(context.Background(), c.storage)
	if err != nil {
		t.Fatalf("reopen: %v", err)
	}
	if d := cmp.Diff(c.Snapshot(), again.Snapshot(), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("the snapshot differs after reopening (-before +after):\n%s", d)
	}
	if c.nextPhys != again.nextPhys {
		t.Errorf("next physical id was %d, is %d after reopening", c.nextPhys, again.nextPhys)
	}
}
