package console

import (
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
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
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
