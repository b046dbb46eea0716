package exec

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqlwire"
	"varve/internal/schema"
)

const (
	notPrivileged = "User %s does not have sufficient privileges to perform the requested operation"
	notAnonymous  = "You have to be logged in and not anonymous to perform this request"
	roleManager   = "org.apache.cassandra.auth.CassandraRoleManager"
)

// changeRoles carries out CREATE, ALTER and DROP ROLE, and GRANT and REVOKE.
func (a *adminRun) changeRoles(ctx context.Context, st cql.Statement) (*Result, error) {
	if err := a.checkRoleStatement(st); err != nil {
		return nil, err
	}
	hash, err := a.hashOption(ctx, st)
	if err != nil {
		return nil, err
	}
	res := voidResult()
	err = a.e.opts.Catalog.ChangeRoles(ctx, func(rc *schema.RoleChange) error {
		c := &roleChange{adminRun: a, RoleChange: rc, snap: rc.Snapshot(), hash: hash, res: res}
		switch st := st.(type) {
		case *cql.CreateRole:
			return c.create(st)
		case *cql.AlterRole:
			return c.alter(st)
		case *cql.DropRole:
			return c.drop(st)
		case *cql.GrantRole:
			return c.grantRole(st)
		case *cql.GrantPermission:
			return c.grantPermission(st)
		}
		return invalidf("%T does not change roles", st)
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

func optionsOf(st cql.Statement) *cql.RoleOptions {
	switch st := st.(type) {
	case *cql.CreateRole:
		return &st.Options
	case *cql.AlterRole:
		return &st.Options
	}
	return nil
}

// checkRoleStatement makes the checks that come before anything is looked up.
func (a *adminRun) checkRoleStatement(st cql.Statement) error {
	if o := optionsOf(st); o != nil {
		if err := a.checkRoleOptions(o); err != nil {
			return err
		}
	}
	if st, ok := st.(*cql.GrantPermission); ok {
		if _, err := a.resourceOf(&st.Resource); err != nil {
			return err
		}
	}
	if a.e.opts.Auth {
		if a.s.Role == "" {
			return unauthorizedf("You have not logged in")
		}
		return nil
	}
	if st, ok := st.(*cql.DropRole); ok {
		if r := a.e.opts.Catalog.Snapshot().Roles[st.Role]; r != nil && r.Superuser {
			return unauthorizedf("Only superusers can drop a role with superuser status")
		}
	}
	return unauthorizedf(notAnonymous)
}

func (a *adminRun) checkRoleOptions(o *cql.RoleOptions) error {
	switch {
	case o.Password != nil && o.HashedPassword != nil:
		return &cqlwire.Error{
			Code: cqlwire.ErrSyntax, Message: "Options 'password' and 'hashed password' are mutually exclusive",
		}
	case o.GeneratedPassword:
		return invalidf("Varve does not support generated passwords")
	case o.Options != nil:
		return invalidf(roleManager + " doesn't support OPTIONS")
	case !a.e.opts.Auth && o.Password != nil:
		return invalidf(roleManager + " doesn't support PASSWORD")
	case !a.e.opts.Auth && o.HashedPassword != nil:
		return invalidf(roleManager + " doesn't support HASHED PASSWORD")
	case o.HashedPassword != nil && !isBcrypt(*o.HashedPassword):
		return invalidf("Invalid hashed password value. Please use jBcrypt.")
	}
	unknown := slices.DeleteFunc(slices.Clone(o.Datacenters), func(dc string) bool { return dc == a.e.opts.Node.Datacenter })
	if len(unknown) > 0 {
		return invalidf("Invalid value(s) for DATACENTERS '[%s]',All values must be valid datacenters", strings.Join(unknown, ", "))
	}
	if len(o.CIDRs) > 0 {
		return invalidf("Invalid CIDR group(s): [%s]. Available CIDR Groups are: []", strings.Join(o.CIDRs, ", "))
	}
	return nil
}

// hashOption hashes the password of a statement, if it has one, outside of
// the catalogue's lock.
func (a *adminRun) hashOption(ctx context.Context, st cql.Statement) (string, error) {
	o := optionsOf(st)
	switch {
	case o == nil:
		return "", nil
	case o.HashedPassword != nil:
		return *o.HashedPassword, nil
	case o.Password != nil:
		return a.e.hashPassword(ctx, *o.Password)
	}
	return "", nil
}

// roleChange is a change of roles while no one else can make one.
type roleChange struct {
	*adminRun
	*schema.RoleChange
	snap *schema.Snapshot
	hash string
	res  *Result
}

func (c *roleChange) super() bool { return isSuperuser(c.snap, c.s.Role, 0) }

// privileged checks a permission on roles, with the text of role statements.
func (c *roleChange) privileged(permission string, r resource) error {
	if !c.e.mayDo(c.s.Role, permission, r) {
		return unauthorizedf(notPrivileged, c.s.Role)
	}
	return nil
}

func (c *roleChange) create(st *cql.CreateRole) error {
	if err := c.privileged("CREATE", allRoles); err != nil {
		return err
	}
	o := &st.Options
	if o.Superuser != nil && *o.Superuser && !c.super() {
		return unauthorizedf("Only superusers can create a role with superuser status")
	}
	if st.Role == "" {
		return invalidf("Role name can't be an empty string")
	}
	if c.snap.Roles[st.Role] != nil {
		if st.IfNotExists {
			return nil
		}
		return invalidf("%s already exists", st.Role)
	}
	r := &schema.Role{Name: st.Role, Login: st.User, SaltedHash: c.hash}
	if o.Superuser != nil {
		r.Superuser = *o.Superuser
	}
	if o.Login != nil {
		r.Login = *o.Login
	}
	c.Put(r)
	creator := c.Role(c.s.Role)
	creator.Grants[string(roleResource(st.Role))] = slices.Clone(schema.RolePermissions)
	c.Put(creator)
	return nil
}

func (c *roleChange) alter(st *cql.AlterRole) error {
	o := &st.Options
	access := o.Datacenters != nil || o.AllDatacenters
	cidrs := o.CIDRs != nil || o.AllCIDRs
	if o.Password == nil && o.HashedPassword == nil && o.Superuser == nil && o.Login == nil && !access && !cidrs {
		return invalidf("ALTER [ROLE|USER] can't be empty")
	}
	if err := c.mayAlter(st, access, cidrs); err != nil {
		return err
	}
	r := c.Role(st.Role)
	if r == nil {
		if st.IfExists {
			return nil
		}
		return invalidf("Role %s doesn't exist", st.Role)
	}
	if c.hash != "" {
		r.SaltedHash = c.hash
	}
	if o.Superuser != nil {
		r.Superuser = *o.Superuser
	}
	if o.Login != nil {
		r.Login = *o.Login
	}
	c.Put(r)
	return nil
}

func (c *roleChange) mayAlter(st *cql.AlterRole, access, cidrs bool) error {
	o := &st.Options
	if o.Superuser != nil && memberships(c.snap, c.s.Role, true)[st.Role] {
		return unauthorizedf("You aren't allowed to alter your own superuser status or that of a role granted to you")
	}
	if c.super() {
		return nil
	}
	switch {
	case o.Superuser != nil:
		return unauthorizedf("Only superusers are allowed to alter superuser status")
	case access:
		return unauthorizedf("Only superusers are allowed to alter access to datacenters.")
	case cidrs:
		return unauthorizedf("Only superusers are allowed to alter access from CIDR groups.")
	case st.Role != c.s.Role:
		return c.privileged("ALTER", roleResource(st.Role))
	case o.Login != nil:
		return unauthorizedf("You aren't allowed to alter LOGIN")
	}
	return nil
}

func (c *roleChange) drop(st *cql.DropRole) error {
	if err := c.privileged("DROP", roleResource(st.Role)); err != nil {
		return err
	}
	r := c.snap.Roles[st.Role]
	switch {
	case r == nil && st.IfExists:
		return nil
	case r == nil:
		return invalidf("%s doesn't exist", st.Role)
	case r.Superuser && !c.super():
		return unauthorizedf("Only superusers can drop a role with superuser status")
	case st.Role == c.s.Role:
		return invalidf("Cannot DROP primary role for current login")
	}
	c.Drop(st.Role)
	return nil
}

func (c *roleChange) grantRole(st *cql.GrantRole) error {
	if err := c.privileged("AUTHORIZE", roleResource(st.Role)); err != nil {
		return err
	}
	for _, name := range []string{st.Role, st.Grantee} {
		if c.snap.Roles[name] == nil {
			return invalidf("%s doesn't exist", name)
		}
	}
	r := c.Role(st.Grantee)
	if st.Revoke {
		if !slices.Contains(r.MemberOf, st.Role) {
			return invalidf("%s is not a member of %s", st.Grantee, st.Role)
		}
		r.MemberOf = slices.DeleteFunc(r.MemberOf, func(s string) bool { return s == st.Role })
		c.Put(r)
		return nil
	}
	if memberships(c.snap, st.Grantee, true)[st.Role] {
		return invalidf("%s is a member of %s", st.Grantee, st.Role)
	}
	if memberships(c.snap, st.Role, true)[st.Grantee] {
		return invalidf("%s is a member of %s", st.Role, st.Grantee)
	}
	r.MemberOf = append(r.MemberOf, st.Role)
	c.Put(r)
	return nil
}

func (c *roleChange) grantPermission(st *cql.GrantPermission) error {
	target, err := c.resourceOf(&st.Resource)
	if err != nil {
		return err
	}
	permissions, err := requested(target, st.Permissions)
	if err != nil {
		return err
	}
	if c.snap.Roles[st.Role] == nil {
		return invalidf("Role %s doesn't exist", st.Role)
	}
	if !exists(c.snap, target) {
		return invalidf("Resource %s doesn't exist", target)
	}
	for _, p := range append([]string{"AUTHORIZE"}, permissions...) {
		if err := c.e.ensure(c.s, p, target); err != nil {
			return err
		}
	}
	if !st.Revoke && strictlyLimited(c.snap, target, permissions) {
		return unauthorizedf("Granting permissions on system keyspaces is strictly limited, this operation is not permitted")
	}
	r := c.Role(st.Role)
	held := r.Grants[string(target)]
	var without []string // asked for in vain
	for _, p := range permissions {
		switch has := slices.Contains(held, p); {
		case has != st.Revoke:
			without = append(without, p)
		case st.Revoke:
			held = slices.DeleteFunc(held, func(s string) bool { return s == p })
		default:
			held = append(held, p)
		}
	}
	if len(without) > 0 {
		verb := "was already granted"
		if st.Revoke {
			verb = "was not granted"
		}
		c.res.Warnings = append(c.res.Warnings,
			fmt.Sprintf("Role '%s' %s %s on %s", st.Role, verb, strings.Join(without, ", "), target))
	}
	r.Grants[string(target)] = held
	c.Put(r)
	return nil
}

// requested are the permissions of a statement that apply to a resource.
func requested(r resource, written []string) ([]string, error) {
	applicable := r.applicable()
	if len(written) == 0 {
		return applicable, nil
	}
	var out []string
	for _, p := range applicable {
		if slices.Contains(written, p) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		kind, _, _ := r.parts()
		class := map[string]string{
			"data": "DataResource", "roles": "RoleResource", "functions": "FunctionResource", "mbean": "JMXResource",
		}[kind]
		return nil, &cqlwire.Error{
			Code:    cqlwire.ErrSyntax,
			Message: "Resource type " + class + " does not support any of the requested permissions",
		}
	}
	return out, nil
}

// strictlyLimited reports a grant that would let a role change system tables.
func strictlyLimited(snap *schema.Snapshot, r resource, permissions []string) bool {
	kind, ks, _ := r.parts()
	k := snap.Keyspaces[ks]
	if kind != "data" || k == nil || !k.System {
		return false
	}
	return slices.ContainsFunc(permissions, func(p string) bool { return p != "SELECT" && p != "DESCRIBE" && p != "ALTER" })
}

// resourceOf turns a written resource into its name.
func (a *adminRun) resourceOf(r *cql.Resource) (resource, error) {
	switch r.Kind {
	case "all keyspaces":
		return allKeyspaces, nil
	case "keyspace":
		return keyspaceResource(r.Name.Keyspace), nil
	case "all tables":
		ks, err := a.keyspaceOf(r.Name.Keyspace)
		return allTablesResource(ks), err
	case "table":
		ks, err := a.keyspaceOf(r.Name.Keyspace)
		return tableResource(ks, r.Name.Name), err
	case "all roles":
		return allRoles, nil
	case "role":
		return roleResource(r.Name.Name), nil
	case "all functions":
		if r.Name.Keyspace != "" {
			return resource("functions/" + r.Name.Keyspace), nil
		}
		return allFunctions, nil
	case "all mbeans":
		return allMBeans, nil
	case "function":
		return "", invalidf("Varve does not support user-defined functions")
	}
	return "", invalidf("Resource <mbean %s> doesn't exist", r.Name.Name)
}

func exists(snap *schema.Snapshot, r resource) bool {
	kind, first, second := r.parts()
	switch {
	case first == "":
		return true
	case kind == "roles":
		return snap.Roles[first] != nil
	case second == "" || second == "*":
		return snap.Keyspaces[first] != nil
	}
	return snap.Table(first, second) != nil
}
