package exec

import (
	"fmt"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

func unauthorizedf(format string, args ...any) error {
	return &cqlwire.Error{Code: cqlwire.ErrUnauthorized, Message: fmt.Sprintf(format, args...)}
}

// maxRoleDepth bounds how far memberships are followed. Loops are refused when
// they are made; this only guards against a damaged catalogue.
const maxRoleDepth = 64

// readableTables may be read by everyone who is logged in, since drivers
// depend on them; so may all of readableKeyspaces.
var (
	readableTables = map[string]bool{
		"local": true, "peers": true, "peers_v2": true, "size_estimates": true, "table_estimates": true,
	}
	readableKeyspaces = map[string]bool{
		"system_schema": true, "system_virtual_schema": true, "system_traces": true,
	}
)

// authorize checks that the session's role may do permission ("SELECT",
// "MODIFY", "CREATE", …) on the table, and returns an Unauthorized error otherwise.
func (e *Engine) authorize(s *Session, permission string, t *schema.Table) error {
	if !e.opts.Auth {
		return nil
	}
	if t.System && permission != "SELECT" && s.Role != "" && !isSuperuser(e.opts.Catalog.Snapshot(), s.Role, 0) {
		// A permission on all keyspaces does not reach system tables (CVE-2025-23015).
		return unauthorizedf("User %s has no %s permission on %s or any of its parents",
			s.Role, permission, tableResource(t.Keyspace, t.Name))
	}
	return e.authorizeTable(s, permission, t.Keyspace, t.Name)
}

func (e *Engine) authorizeTable(s *Session, permission, keyspace, table string) error {
	if permission == "SELECT" && s.Role != "" &&
		(readableKeyspaces[keyspace] || keyspace == "system" && readableTables[table] || keyspace == "varve" && selfGuarded[table]) {
		return nil
	}
	return e.ensure(s, permission, tableResource(keyspace, table))
}

// resource is what a permission is on, by the name that system_auth keeps it
// under: "data", "data/ks", "data/ks/*", "data/ks/table", "roles", "roles/x",
// "functions", "functions/ks", "mbean".
type resource string

func keyspaceResource(ks string) resource     { return resource("data/" + ks) }
func allTablesResource(ks string) resource    { return resource("data/" + ks + "/*") }
func tableResource(ks, table string) resource { return resource("data/" + ks + "/" + table) }
func roleResource(name string) resource       { return resource("roles/" + name) }

const (
	allKeyspaces resource = "data"
	allRoles     resource = "roles"
	allFunctions resource = "functions"
	allMBeans    resource = "mbean"
)

// parts splits a resource into its kind and what lies under it. Role names may
// hold slashes, so only data has three parts.
func (r resource) parts() (kind, first, second string) {
	kind, first, _ = strings.Cut(string(r), "/")
	if kind == "data" {
		first, second, _ = strings.Cut(first, "/")
	}
	return kind, first, second
}

// parent is the resource that takes this one in; "" for roots.
func (r resource) parent() resource {
	kind, first, second := r.parts()
	switch {
	case second != "" && second != "*":
		return allTablesResource(first)
	case second == "*":
		return keyspaceResource(first)
	case first != "":
		return resource(kind)
	}
	return ""
}

// String writes the resource as messages and LIST PERMISSIONS do.
func (r resource) String() string {
	kind, first, second := r.parts()
	switch {
	case r == allKeyspaces:
		return "<all keyspaces>"
	case r == allRoles:
		return "<all roles>"
	case r == allFunctions:
		return "<all functions>"
	case r == allMBeans:
		return "<all mbeans>"
	case kind == "roles":
		return "<role " + first + ">"
	case kind == "functions":
		return "<all functions in " + first + ">"
	case second == "":
		return "<keyspace " + first + ">"
	case second == "*":
		return "<all tables in " + first + ">"
	}
	return "<table " + first + "." + second + ">"
}

// applicable lists the permissions that may be granted on the resource.
func (r resource) applicable() []string {
	kind, first, second := r.parts()
	switch {
	case r == allMBeans:
		return []string{"SELECT", "MODIFY", "AUTHORIZE", "DESCRIBE", "EXECUTE"}
	case r == allRoles:
		return schema.AllRolesPermissions
	case kind == "roles":
		return schema.RolePermissions
	case kind == "functions":
		return schema.FunctionPermissions
	case first != "" && second != "" && second != "*":
		return schema.TablePermissions
	}
	return schema.KeyspacePermissions
}

// ensure checks a permission on a resource or what takes it in.
func (e *Engine) ensure(s *Session, permission string, r resource) error {
	if !e.opts.Auth {
		return nil
	}
	if s.Role == "" {
		return unauthorizedf("You have not logged in")
	}
	if e.mayDo(s.Role, permission, r) {
		return nil
	}
	return unauthorizedf("User %s has no %s permission on %s or any of its parents", s.Role, permission, r)
}

func (e *Engine) mayDo(role, permission string, r resource) bool {
	snap := e.opts.Catalog.Snapshot()
	if isSuperuser(snap, role, 0) {
		return true
	}
	for ; r != ""; r = r.parent() {
		if hasGrant(snap, role, permission, string(r), 0) {
			return true
		}
	}
	return false
}

// isSuperuser reports a role that is a superuser itself or by membership.
func isSuperuser(snap *schema.Snapshot, role string, depth int) bool {
	r := snap.Roles[role]
	if r == nil || depth > maxRoleDepth {
		return false
	}
	if r.Superuser {
		return true
	}
	for _, of := range r.MemberOf {
		if isSuperuser(snap, of, depth+1) {
			return true
		}
	}
	return false
}

func hasGrant(snap *schema.Snapshot, role, permission, resource string, depth int) bool {
	r := snap.Roles[role]
	if r == nil || depth > maxRoleDepth {
		return false
	}
	for _, p := range r.Grants[resource] {
		if p == permission {
			return true
		}
	}
	for _, of := range r.MemberOf {
		if hasGrant(snap, of, permission, resource, depth+1) {
			return true
		}
	}
	return false
}

// memberships returns a role and what it is a member of, directly or, with
// recursive, at any remove.
func memberships(snap *schema.Snapshot, role string, recursive bool) map[string]bool {
	seen := map[string]bool{}
	var visit func(name string, depth int)
	visit = func(name string, depth int) {
		r := snap.Roles[name]
		if r == nil || seen[name] || depth > maxRoleDepth {
			return
		}
		seen[name] = true
		if depth > 0 && !recursive {
			return
		}
		for _, of := range r.MemberOf {
			visit(of, depth+1)
		}
	}
	visit(role, 0)
	return seen
}

// authorizeDDL checks the permission that a DDL statement needs.
func (a *adminRun) authorizeDDL(st cql.Statement) error {
	if !a.e.opts.Auth {
		return nil
	}
	permission, r, err := a.needed(st)
	if err != nil || r == "" {
		return err
	}
	// Changes of system keyspaces are refused as such, whoever asks.
	if _, ks, _ := r.parts(); ks != "" {
		if k := a.e.opts.Catalog.Snapshot().Keyspaces[ks]; k != nil && k.System && r != keyspaceResource(ks) {
			return nil
		}
	}
	return a.e.ensure(a.s, permission, r)
}

// needed tells what permission on what a DDL statement needs; no resource: none.
func (a *adminRun) needed(st cql.Statement) (permission string, r resource, err error) {
	table := func(permission string, n cql.Name) (string, resource, error) {
		ks, err := a.keyspaceOf(n.Keyspace)
		return permission, tableResource(ks, n.Name), err
	}
	inKeyspace := func(permission string, n cql.Name) (string, resource, error) {
		ks, err := a.keyspaceOf(n.Keyspace)
		return permission, allTablesResource(ks), err
	}
	switch st := st.(type) {
	case *cql.CreateKeyspace:
		return "CREATE", allKeyspaces, nil
	case *cql.AlterKeyspace:
		return "ALTER", keyspaceResource(st.Name), nil
	case *cql.DropKeyspace:
		return "DROP", keyspaceResource(st.Name), nil
	case *cql.CreateTable:
		return inKeyspace("CREATE", st.Table)
	case *cql.AlterTable:
		return table("ALTER", st.Table)
	case *cql.DropTable:
		return table("DROP", st.Table)
	case *cql.CreateType:
		return inKeyspace("CREATE", st.Type)
	case *cql.AlterType:
		return inKeyspace("ALTER", st.Type)
	case *cql.DropType:
		return inKeyspace("DROP", st.Type)
	case *cql.CreateIndex:
		return table("ALTER", st.Table)
	case *cql.DropIndex:
		ks, err := a.keyspaceOf(st.Name.Keyspace)
		if err != nil {
			return "", "", err
		}
		if k := a.e.opts.Catalog.Snapshot().Keyspaces[ks]; k != nil {
			if t, x := k.FindIndex(st.Name.Name); x != nil {
				return "ALTER", tableResource(ks, t.Name), nil
			}
		}
	}
	return "", "", nil
}
