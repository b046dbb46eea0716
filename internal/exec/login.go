package exec

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"varve/internal/cqlwire"
	"varve/internal/schema"
)

const (
	// loginValidity is how long a checked password is taken without hashing it
	// again: a driver opens a pool's connections within moments.
	loginValidity = 5 * time.Second
	// maxLogins bounds the checked passwords remembered.
	maxLogins = 1024
)

// passwords bounds the hashing of passwords and remembers recent successes. It
// keeps no password: an entry is a keyed hash of name, salted hash and
// password under a key that lives as long as the process.
type passwords struct {
	slots chan struct{} // one a hash under way
	cost  int           // of hashing, schema.HashCost
	key   [32]byte

	mu    sync.Mutex
	known map[[sha256.Size]byte]time.Time // until when
}

func (p *passwords) init() error {
	p.slots = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
	p.cost = schema.HashCost
	p.known = map[[sha256.Size]byte]time.Time{}
	if _, err := rand.Read(p.key[:]); err != nil {
		return fmt.Errorf("make login key: %w", err)
	}
	return nil
}

// acquire waits for a slot to hash in; the caller calls the result when done.
func (p *passwords) acquire(ctx context.Context) (release func(), err error) {
	select {
	case p.slots <- struct{}{}:
		return func() { <-p.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *passwords) digest(name, saltedHash, password string) (d [sha256.Size]byte) {
	h := hmac.New(sha256.New, p.key[:])
	for _, s := range []string{name, saltedHash, password} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	h.Sum(d[:0])
	return d
}

func (p *passwords) recent(d [sha256.Size]byte, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Before(p.known[d])
}

func (p *passwords) remember(d [sha256.Size]byte, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxLogins {
		for k, until := range p.known {
			if !now.Before(until) {
				delete(p.known, k)
			}
		}
	}
	if len(p.known) < maxLogins {
		p.known[d] = now.Add(loginValidity)
	}
}

// Login checks a password and returns the role's name as Session.Role wants it.
func (e *Engine) Login(ctx context.Context, user, password string) (string, error) {
	refused := &cqlwire.Error{
		Code:    cqlwire.ErrBadCredentials,
		Message: fmt.Sprintf("Provided username %s and/or password are incorrect", user),
	}
	role := e.opts.Catalog.Snapshot().Roles[user]
	hash := ""
	if role != nil {
		hash = role.SaltedHash
	}
	now := time.Now()
	digest := e.passwords.digest(user, hash, password)
	if hash == "" || !e.passwords.recent(digest, now) {
		release, err := e.passwords.acquire(ctx)
		if err != nil {
			return "", wireError(err)
		}
		ok := schema.CheckPassword(hash, password)
		release()
		if !ok {
			return "", refused
		}
		e.passwords.remember(digest, now)
	}
	if !role.Login {
		return "", &cqlwire.Error{Code: cqlwire.ErrBadCredentials, Message: user + " is not permitted to log in"}
	}
	return role.Name, nil
}

// hashPassword makes a salted hash within the bound on hashing.
func (e *Engine) hashPassword(ctx context.Context, password string) (string, error) {
	release, err := e.passwords.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	return schema.HashPassword(password, e.passwords.cost)
}

// isBcrypt reports a well-formed salted hash.
func isBcrypt(hash string) bool {
	_, err := bcrypt.Cost([]byte(hash))
	return err == nil
}
