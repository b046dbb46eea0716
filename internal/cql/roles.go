package cql

import (
	"slices"
	"strings"
)

// role reads a role's name; strings and quoted names keep their case.
func (p *parser) role() string {
	switch p.tok.kind {
	case tString:
		return p.stringLit()
	case tQMark:
		p.fail("Bind variables cannot be used for role names")
		return ""
	}
	return p.name()
}

// userName reads the name of CREATE USER and its like, which keeps its case
// even without quotes.
func (p *parser) userName() string {
	t := p.tok
	switch t.kind {
	case tIdent, tString:
		p.next()
	case tQuoted:
		p.fail("Quoted strings are are not supported for user names and USER is deprecated, please use ROLE")
	default:
		p.failHere()
	}
	if p.err != nil {
		return ""
	}
	return p.text(t)
}

func (p *parser) createRole() Statement {
	p.next()
	s := &CreateRole{IfNotExists: p.ifNotExists(), Role: p.role()}
	p.roleOptions(&s.Options)
	return s
}

func (p *parser) alterRole() Statement {
	p.next()
	s := &AlterRole{IfExists: p.ifExists(), Role: p.role()}
	p.roleOptions(&s.Options)
	return s
}

func (p *parser) createUser() Statement {
	p.next()
	s := &CreateRole{User: true, IfNotExists: p.ifNotExists(), Role: p.userName()}
	p.userOptions(&s.Options)
	return s
}

func (p *parser) alterUser() Statement {
	p.next()
	s := &AlterRole{User: true, IfExists: p.ifExists(), Role: p.userName()}
	p.userOptions(&s.Options)
	return s
}

// userOptions reads [WITH [HASHED] PASSWORD '…'] [SUPERUSER|NOSUPERUSER].
func (p *parser) userOptions(o *RoleOptions) {
	if p.accept(kWith) {
		hashed := p.accept(kHashed)
		if !hashed && !p.is(kPassword) {
			p.failHere()
		}
		p.expect(kPassword)
		s := p.stringLit()
		if hashed {
			o.HashedPassword = &s
		} else {
			o.Password = &s
		}
	}
	if p.is(kSuperuser) || p.is(kNoSuperuser) {
		super := p.is(kSuperuser)
		p.next()
		o.Superuser = &super
	}
}

// roleOptions reads WITH option AND … if it is there.
func (p *parser) roleOptions(o *RoleOptions) {
	if !p.accept(kWith) {
		return
	}
	for {
		p.roleOption(o)
		if !p.accept(kAnd) {
			break
		}
	}
	if o.Password != nil && o.HashedPassword != nil {
		p.fail("Options 'password' and 'hashed password' are mutually exclusive")
	}
}

func (p *parser) roleOption(o *RoleOptions) {
	switch p.tok.kind {
	case kPassword:
		p.optionString(&o.Password, "password")
	case kHashed:
		p.next()
		if !p.is(kPassword) {
			p.expect(kPassword)
			return
		}
		p.optionString(&o.HashedPassword, "hashed password")
	case kSuperuser:
		p.optionBool(&o.Superuser, "superuser")
	case kLogin:
		p.optionBool(&o.Login, "login")
	case kOptions:
		p.next()
		p.expect(tEq)
		p.once(o.Options != nil, "options")
		o.Options, _ = p.propertyMap()
	case kAccess:
		p.access(o)
	default:
		p.failHere()
	}
}

// once refuses an option that was given before.
func (p *parser) once(given bool, name string) {
	if given && p.err == nil {
		p.fail("Multiple definition for property '%s'", strings.ToUpper(name))
	}
}

func (p *parser) optionString(dst **string, name string) {
	p.next()
	p.expect(tEq)
	p.once(*dst != nil, name)
	s := p.stringLit()
	*dst = &s
}

func (p *parser) optionBool(dst **bool, name string) {
	p.next()
	p.expect(tEq)
	p.once(*dst != nil, name)
	b := strings.EqualFold(p.text(p.expect(tBoolean)), "true")
	*dst = &b
}

// access reads ACCESS TO [ALL] DATACENTERS … and ACCESS FROM [ALL] CIDRS ….
func (p *parser) access(o *RoleOptions) {
	start := p.tok
	p.next()
	cidrs := p.is(kFrom)
	if !cidrs && !p.is(kTo) {
		p.failFrom(start, p.tok)
		return
	}
	p.next()
	what, list, all := kDatacenters, &o.Datacenters, &o.AllDatacenters
	if cidrs {
		what, list, all = kCidrs, &o.CIDRs, &o.AllCIDRs
	}
	if p.accept(kAll) {
		p.expect(what)
		*all = true
		return
	}
	p.expectAll(what, tLCurly)
	*list = append(*list, p.stringLit())
	for p.accept(tComma) {
		*list = append(*list, p.stringLit())
	}
	p.expect(tRCurly)
}

func isPermission(k kind) bool {
	switch k {
	case kCreate, kAlter, kDrop, kSelect, kModify, kAuthorize, kDescribe, kExecute, kUnmask, kSelectMasked:
		return true
	}
	return false
}

// grantStatement reads GRANT and REVOKE of roles and of permissions.
func (p *parser) grantStatement(revoke bool) Statement {
	start := p.tok
	p.next()
	to := kTo
	if revoke {
		to = kFrom
	}
	k := p.tok.kind
	if !(k == kAll || isPermission(k)) || (k.isName() && p.peek(1).kind == to) {
		if !k.isName() && k != tString && k != tQMark {
			p.failFrom(start, p.tok)
			return nil
		}
		g := &GrantRole{Revoke: revoke, Role: p.role()}
		p.expect(to)
		g.Grantee = p.role()
		return g
	}
	g := &GrantPermission{Revoke: revoke}
	g.Permissions = p.permissions()
	p.expect(kOn)
	var applicable string
	g.Resource, applicable = p.resource()
	p.expect(to)
	g.Role = p.role()
	p.filterPermissions(g, applicable)
	return g
}

// permissions reads ALL [PERMISSIONS] (none is returned) or a list.
func (p *parser) permissions() []string {
	if p.accept(kAll) {
		p.accept(kPermissions)
		return nil
	}
	var list []string
	for {
		if !isPermission(p.tok.kind) {
			p.failHere()
			return nil
		}
		if name := strings.ToUpper(p.text(p.tok)); !slices.Contains(list, name) {
			list = append(list, name)
		}
		p.next()
		p.accept(kPermission)
		if !p.accept(tComma) {
			return list
		}
	}
}

// The permissions that make sense on each class of resource.
const (
	onKeyspaces = "DataResource CREATE ALTER DROP SELECT MODIFY AUTHORIZE UNMASK SELECT_MASKED"
	onTable     = "DataResource ALTER DROP SELECT MODIFY AUTHORIZE UNMASK SELECT_MASKED"
	onAllRoles  = "RoleResource CREATE ALTER DROP AUTHORIZE DESCRIBE"
	onRole      = "RoleResource ALTER DROP AUTHORIZE DESCRIBE"
	onFunctions = "FunctionResource CREATE ALTER DROP AUTHORIZE EXECUTE"
	onFunction  = "FunctionResource ALTER DROP AUTHORIZE EXECUTE"
	onMBeans    = "JMXResource AUTHORIZE DESCRIBE EXECUTE MODIFY SELECT"
)

// filterPermissions keeps those permissions that the resource knows; there must be one.
func (p *parser) filterPermissions(g *GrantPermission, applicable string) {
	if len(g.Permissions) == 0 || p.err != nil {
		return
	}
	words := strings.Fields(applicable)
	g.Permissions = slices.DeleteFunc(g.Permissions, func(s string) bool { return !slices.Contains(words[1:], s) })
	if len(g.Permissions) == 0 {
		p.fail("Resource type %s does not support any of the requested permissions", words[0])
	}
}

// resource reads what a permission is on, and returns which permissions apply.
func (p *parser) resource() (r Resource, applicable string) {
	start := p.tok
	switch k := start.kind; {
	case k == kAll && p.peek(1).kind != kTo && p.peek(1).kind != kFrom && p.peek(1).kind != tDot:
		p.next()
		return p.allOf(start)
	case k == kKeyspace:
		p.next()
		return Resource{Kind: "keyspace", Name: Name{Keyspace: p.keyspace()}}, onKeyspaces
	case k == kColumnFamily:
		p.next()
		return Resource{Kind: "table", Name: p.table()}, onTable
	case k == kRole && p.resourceWord():
		p.next()
		return Resource{Kind: "role", Name: Name{Name: p.role()}}, onRole
	case k == kFunction && p.resourceWord():
		p.next()
		r = Resource{Kind: "function", Name: p.functionName()}
		p.expect(tLParen)
		if !p.accept(tRParen) {
			p.typeRef()
			for p.accept(tComma) {
				p.typeRef()
			}
			p.expect(tRParen)
		}
		return r, onFunction
	case (k == kMBean || k == kMBeans) && p.peek(1).kind == tString:
		p.next()
		return Resource{Kind: "mbean", Name: Name{Name: p.stringLit()}}, onMBeans
	}
	return Resource{Kind: "table", Name: p.table()}, onTable
}

// resourceWord tells ROLE x from a table called role.
func (p *parser) resourceWord() bool {
	k := p.peek(1).kind
	return k.isName() || k == tString || k == tQMark || k == kToken
}

func (p *parser) allOf(start token) (r Resource, applicable string) {
	k := p.tok.kind
	switch k {
	case kKeyspaces:
		r, applicable = Resource{Kind: "all keyspaces"}, onKeyspaces
	case kRoles:
		r, applicable = Resource{Kind: "all roles"}, onAllRoles
	case kMBeans:
		r, applicable = Resource{Kind: "all mbeans"}, onMBeans
	case kTables:
		p.next()
		p.expectAll(kIn, kKeyspace)
		return Resource{Kind: "all tables", Name: Name{Keyspace: p.keyspace()}}, onKeyspaces
	case kFunctions:
		r = Resource{Kind: "all functions"}
		p.next()
		if p.accept(kIn) {
			p.expect(kKeyspace)
			r.Name.Keyspace = p.keyspace()
		}
		return r, onFunctions
	default:
		p.failFrom(start, p.tok)
		return r, onKeyspaces
	}
	p.next()
	return r, applicable
}

func (p *parser) listStatement() Statement {
	start := p.tok
	p.next()
	switch k := p.tok.kind; {
	case k == kUsers:
		p.next()
		return &ListRoles{Users: true}
	case k == kRoles:
		p.next()
		s := &ListRoles{}
		if p.accept(kOf) {
			s.Of = p.role()
		}
		s.NoRecursive = p.accept(kNoRecursive)
		return s
	case k == kAll || isPermission(k):
		s := &ListPermissions{Permissions: p.permissions()}
		if p.accept(kOn) {
			r, _ := p.resource()
			s.Resource = &r
		}
		if p.accept(kOf) {
			s.Of = p.role()
		}
		s.NoRecursive = p.accept(kNoRecursive)
		return s
	}
	p.failFrom(start, p.tok)
	return nil
}
