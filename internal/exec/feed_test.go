package exec

import (
	"context"
	"testing"

	"github.com/cockroachdb/datadriven"

	"varve/internal/cqlwire"
)

// TestFeed runs the files under testdata/feed: "cql" is a statement, sent with
// a token of a move where move=TOKEN is given; "as" is one of a logged-in user.
func TestFeed(t *testing.T) {
	datadriven.Walk(t, "testdata/feed", func(t *testing.T, path string) {
		e := newAdminEngine(t, path == "testdata/feed/permissions")
		sessions := map[string]*Session{}
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			p := &Params{Consistency: cqlwire.One}
			user := ""
			for _, a := range d.CmdArgs {
				switch {
				case a.Key == "move":
					p.Move = a.Vals[0]
				default:
					user = a.Key
				}
			}
			s := sessions[user]
			if s == nil {
				s = &Session{ProtocolVersion: 5, Role: user}
				sessions[user] = s
			}
			return adminOutcome(settled(e.Query(context.Background(), s, d.Input, p)))
		})
	})
}
