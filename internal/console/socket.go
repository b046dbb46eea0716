package console

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// listenPrivate makes a Unix socket with mode 0600. It is made in a directory
// of mode 0700 first, so that it is never open to others, not even for a moment.
func listenPrivate(path string) (net.Listener, error) {
	tmp, err := os.MkdirTemp(filepath.Dir(path), ".admin-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	made := filepath.Join(tmp, "s")
	name, done, err := shortened(made)
	if err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	done()
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(made, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	if err := os.Rename(made, path); err != nil {
		_ = l.Close()
		return nil, err
	}
	return &unlinkingListener{Listener: l, path: path}, nil
}

// maxSocketPath is how long a Unix socket's path may be, with the 0 at its end:
// 108 on Linux, 104 elsewhere.
const maxSocketPath = 104

// shortened returns a name for a socket's path that is short enough, valid
// until done is called: through its directory, opened, where it is too long.
func shortened(path string) (name string, done func(), err error) {
	if len(path) < maxSocketPath {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	name = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	if _, err := os.Stat(filepath.Dir(name)); err != nil {
		_ = dir.Close()
		return "", nil, fmt.Errorf("the path %s is longer than a socket's may be (%d bytes)", path, maxSocketPath-1)
	}
	return name, func() { _ = dir.Close() }, nil
}

type unlinkingListener struct {
	net.Listener
	path string
}

// Close closes the listener and removes the socket.
func (l *unlinkingListener) Close() error {
	err := l.Listener.Close()
	_ = os.Remove(l.path)
	return err
}
