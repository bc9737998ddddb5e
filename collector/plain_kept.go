package collector

import (
	"net"
	"slices"
	"sync"
	"time"
)

// plainIdle is how long a connection is kept that nobody uses.
const plainIdle = 5 * time.Minute

// keptConns are the connections of a plainTransport that nobody uses now.
type keptConns struct {
	mu sync.Mutex
	// idle holds them by host and port.
	idle map[string][]*plainConn
	// sweep closes those that are idle for long; nil while there are none.
	sweep *time.Timer
}

// plainConn is a connection to a host and port. reused says that it was idle
// before, since is when that last began.
type plainConn struct {
	net.Conn
	host   string
	reused bool
	since  time.Time
}

// take takes a kept connection to the host; nil where there is none.
func (k *keptConns) take(host string) *plainConn {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := k.idle[host]
	if len(kept) == 0 {
		return nil
	}
	last := len(kept) - 1
	c := kept[last]
	kept[last], k.idle[host] = nil, kept[:last]
	return c
}

// give keeps a connection.
func (k *keptConns) give(c *plainConn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c.reused, c.since = true, time.Now()
	if k.idle == nil {
		k.idle = map[string][]*plainConn{}
	}
	k.idle[c.host] = append(k.idle[c.host], c)
	if k.sweep == nil {
		k.sweep = time.AfterFunc(plainIdle, func() { k.close(time.Now().Add(-plainIdle)) })
	}
}

// close closes the connections that nobody has used since then.
func (k *keptConns) close(since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for host, kept := range k.idle {
		kept = slices.DeleteFunc(kept, func(c *plainConn) bool {
			old := !c.since.After(since)
			if old {
				_ = c.Close()
			}
			return old
		})
		if k.idle[host] = kept; len(kept) == 0 {
			delete(k.idle, host)
		}
	}
	if k.sweep == nil {
		return
	}
	if len(k.idle) > 0 {
		k.sweep.Reset(plainIdle)
	} else {
		k.sweep.Stop()
		k.sweep = nil
	}
}
