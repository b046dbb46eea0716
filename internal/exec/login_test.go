package exec

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"varve/internal/cqlwire"
	"varve/internal/schema"
)

func TestLogin(t *testing.T) {
	e := newAdminEngine(t, true)
	ctx := context.Background()
	super := &Session{ProtocolVersion: 5, Role: schema.DefaultSuperuser}
	run := func(text string) {
		t.Helper()
		if _, err := e.Query(ctx, super, text, &Params{Consistency: cqlwire.One}); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	long := strings.Repeat("x", 100)
	run("CREATE ROLE long WITH LOGIN = true AND PASSWORD = '" + long + "'")
	run("CREATE ROLE bare WITH LOGIN = true")
	run("CREATE ROLE shut WITH PASSWORD = 'p'")
	for _, c := range []struct {
		user, password, refusal string
	}{
		{"cassandra", "cassandra", ""},
		{"cassandra", "cassandra", ""}, // from the cache
		{"cassandra", "Cassandra", "Provided username cassandra and/or password are incorrect"},
		{"long", long, ""},
		{"bare", "", "Provided username bare and/or password are incorrect"},
		{"shut", "p", "shut is not permitted to log in"},
		{"", "", "Provided username  and/or password are incorrect"},
		{"nobody", "cassandra", "Provided username nobody and/or password are incorrect"},
	} {
		role, err := e.Login(ctx, c.user, c.password)
		var refused *cqlwire.Error
		switch {
		case c.refusal == "" && (err != nil || role != c.user):
			t.Errorf("%s/%s: got %q, %v", c.user, c.password, role, err)
		case c.refusal != "" && (!errors.As(err, &refused) || refused.Code != cqlwire.ErrBadCredentials || refused.Message != c.refusal):
			t.Errorf("%s/%s: got %v, want %q", c.user, c.password, err, c.refusal)
		}
	}
	// A changed password counts at once, whatever the cache holds.
	run("ALTER ROLE long WITH PASSWORD = 'short'")
	if _, err := e.Login(ctx, "long", long); err == nil {
		t.Error("the old password is still taken")
	}
	run("DROP ROLE long")
	if _, err := e.Login(ctx, "long", "short"); err == nil {
		t.Error("a dropped role may log in")
	}
}

// TestLoginIsBounded checks that a flood of logins waits for a place to hash
// in, and gives up with its request.
func TestLoginIsBounded(t *testing.T) {
	e := newAdminEngine(t, true)
	for range cap(e.passwords.slots) {
		release, err := e.passwords.acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := e.Login(ctx, "cassandra", "cassandra"); err == nil {
		t.Error("a login was checked without a place to do it in")
	}
}

func TestRememberedLoginsAreBounded(t *testing.T) {
	var p passwords
	if err := p.init(); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	for i := range 3 * maxLogins {
		p.remember(p.digest("u", "h", strings.Repeat("x", i)), now)
	}
	if len(p.known) > maxLogins {
		t.Errorf("%d logins are remembered", len(p.known))
	}
	d := p.digest("u", "h", "")
	if !p.recent(d, now) || p.recent(d, now.Add(loginValidity)) || p.recent(p.digest("u", "other", ""), now) {
		t.Error("a login is remembered for the wrong time or hash")
	}
	p.remember(p.digest("u", "h", "new"), now.Add(loginValidity))
	if len(p.known) != 1 {
		t.Errorf("%d logins are remembered after all but one expired", len(p.known))
	}
}

func TestAuthorizeWithoutAuthAllocatesNothing(t *testing.T) {
	e := newAdminEngine(t, false)
	s, table := &Session{}, e.opts.Catalog.Snapshot().Table("system_traces", "events")
	if n := testing.AllocsPerRun(100, func() {
		if err := e.authorize(s, "MODIFY", table); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
