package schema

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/crypto/bcrypt"
)

// DefaultSuperuser is the role that an empty store gets; it is also its password.
const DefaultSuperuser = "cassandra"

// HashCost is bcrypt's cost for passwords, Cassandra's default
// (cassandra.auth_bcrypt_gensalt_log2_rounds).
const HashCost = 10

// HashPassword returns the salted hash of a password as system_auth.roles
// holds it; cost is HashCost but in tests. What is beyond 72 bytes does not count.
func HashPassword(password string, cost int) (string, error) {
	hash, err := bcrypt.GenerateFromPassword(hashed(password), cost)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return string(hash), nil
}

func hashed(password string) []byte { return []byte(password[:min(len(password), maxHashed)]) }

// maxHashed is how many bytes of a password bcrypt takes.
const maxHashed = 72

// CheckPassword compares a password with a salted hash. An empty hash is that
// of a role without a password, or of none: it takes as long as any other, so
// that the time tells nothing, and never matches.
func CheckPassword(saltedHash, password string) bool {
	hash := saltedHash
	if hash == "" {
		hash = defaultHash
	}
	return bcrypt.CompareHashAndPassword([]byte(hash), hashed(password)) == nil && saltedHash != ""
}

// defaultHash is the default password's hash. A fixed salt costs nothing here,
// since the password is known to everyone, and saves a fresh store 60 ms.
const defaultHash = "$2a$10$U4h9PZ9wE00p871QCKfxhOf.JKAaSabzoAz5vZoUmhvT2UNeaXPbu"

func (c *Catalog) createDefaultSuperuser(ctx context.Context) error {
	return c.ChangeRoles(ctx, func(roles *RoleChange) error {
		roles.Put(&Role{Name: DefaultSuperuser, Superuser: true, Login: true, SaltedHash: defaultHash})
		return nil
	})
}

// DefaultPassword reports that the role still has the password a new store gives it.
func (r *Role) DefaultPassword() bool {
	return r.Name == DefaultSuperuser && r.SaltedHash == defaultHash
}

// RoleChange collects changes to roles, which are made together.
type RoleChange struct {
	d *draft
}

// ChangeRoles runs f on a change and, when f returns nil, persists it and
// publishes the snapshot. f sees the roles as nobody else is changing them.
func (c *Catalog) ChangeRoles(ctx context.Context, f func(*RoleChange) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.draft()
	if err := f(&RoleChange{d: d}); err != nil {
		return err
	}
	return c.commit(ctx, d)
}

// Snapshot is the state being changed, earlier changes of this one included.
func (rc *RoleChange) Snapshot() *Snapshot { return rc.d.snap }

// Role returns a copy of a role that may be changed and Put; nil when there is none.
func (rc *RoleChange) Role(name string) *Role {
	r := rc.d.snap.Roles[name]
	if r == nil {
		return nil
	}
	n := *r
	n.MemberOf = slices.Clone(r.MemberOf)
	n.Options = maps.Clone(r.Options)
	n.Grants = make(map[string][]string, len(r.Grants))
	for resource, permissions := range r.Grants {
		n.Grants[resource] = slices.Clone(permissions)
	}
	return &n
}

// Put adds or replaces a role.
func (rc *RoleChange) Put(r *Role) {
	slices.Sort(r.MemberOf)
	for resource, permissions := range r.Grants {
		if len(permissions) == 0 {
			delete(r.Grants, resource)
			continue
		}
		slices.Sort(permissions)
	}
	if len(r.Grants) == 0 {
		r.Grants = nil
	}
	rc.d.snap.Roles[r.Name] = r
	rc.d.dirty[roleKey(r.Name)] = true
}

// Drop removes a role, its memberships both ways, and all grants on it.
func (rc *RoleChange) Drop(name string) {
	delete(rc.d.snap.Roles, name)
	rc.d.dirty[roleKey(name)] = true
	for _, other := range slices.Sorted(maps.Keys(rc.d.snap.Roles)) {
		if slices.Contains(rc.d.snap.Roles[other].MemberOf, name) {
			r := rc.Role(other)
			r.MemberOf = slices.DeleteFunc(r.MemberOf, func(s string) bool { return s == name })
			rc.Put(r)
		}
	}
	rc.d.revokeAll(roleResource(name))
}

func tableResource(ks, name string) string { return "data/" + ks + "/" + name }
func keyspaceResource(ks string) string    { return "data/" + ks }
func functionsResource(ks string) string   { return "functions/" + ks }
func roleResource(name string) string      { return "roles/" + name }

// Permissions that may be granted on each kind of resource, in Cassandra's order.
var (
	KeyspacePermissions = []string{"CREATE", "ALTER", "DROP", "SELECT", "MODIFY", "AUTHORIZE", "UNMASK", "SELECT_MASKED"}
	TablePermissions    = []string{"ALTER", "DROP", "SELECT", "MODIFY", "AUTHORIZE", "UNMASK", "SELECT_MASKED"}
	FunctionPermissions = []string{"CREATE", "ALTER", "DROP", "AUTHORIZE", "EXECUTE"}
	AllRolesPermissions = []string{"CREATE", "ALTER", "DROP", "AUTHORIZE", "DESCRIBE"}
	RolePermissions     = []string{"ALTER", "DROP", "AUTHORIZE", "DESCRIBE"}
)

// grantCreator grants a role every permission on what it created.
func (d *draft) grantCreator(role string, e *Event) {
	rc := &RoleChange{d: d}
	r := rc.Role(role)
	if r == nil || e == nil || e.Change != "CREATED" {
		return
	}
	switch e.Target {
	case "KEYSPACE":
		r.Grants[keyspaceResource(e.Keyspace)] = slices.Clone(KeyspacePermissions)
		r.Grants[functionsResource(e.Keyspace)] = slices.Clone(FunctionPermissions)
	case "TABLE":
		r.Grants[tableResource(e.Keyspace, e.Name)] = slices.Clone(TablePermissions)
	default:
		return
	}
	rc.Put(r)
}

// revokeAll takes back every grant on a resource that is going away.
func (d *draft) revokeAll(resources ...string) {
	rc := &RoleChange{d: d}
	for _, name := range slices.Sorted(maps.Keys(d.snap.Roles)) {
		for _, resource := range resources {
			if len(d.snap.Roles[name].Grants[resource]) > 0 {
				r := rc.Role(name)
				delete(r.Grants, resource)
				rc.Put(r)
			}
		}
	}
}
