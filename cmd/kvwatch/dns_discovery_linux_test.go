package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// nameServer answers as a cluster's does, from a zone that the test changes.
type nameServer struct {
	address string
	zone    atomic.Pointer[[]dns.RR]
}

// newNameServer listens on port 53, the only one that a resolv.conf can name, of
// an address of the loopback that is this process's own.
func newNameServer(t *testing.T) (*nameServer, error) {
	t.Helper()
	s := &nameServer{address: loopback(53)}
	s.holds(t)
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", net.JoinHostPort(s.address, "53"))
	if err != nil {
		return nil, err
	}
	server := &dns.Server{PacketConn: conn, Handler: s}
	served := make(chan error, 1)
	go func() { served <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		_ = conn.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return s, nil
}

// holds replaces the zone.
func (s *nameServer) holds(t *testing.T, records ...string) {
	t.Helper()
	zone := []dns.RR{}
	for _, text := range records {
		record, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		zone = append(zone, record)
	}
	s.zone.Store(&zone)
}

// ServeDNS answers one question. A name without records does not exist.
func (s *nameServer) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	answer := new(dns.Msg)
	answer.SetRcode(question, dns.RcodeNameError)
	for _, record := range *s.zone.Load() {
		if !strings.EqualFold(record.Header().Name, question.Question[0].Name) {
			continue
		}
		answer.Rcode = dns.RcodeSuccess
		if record.Header().Rrtype == question.Question[0].Qtype {
			answer.Answer = append(answer.Answer, record)
		}
	}
	_ = w.WriteMsg(answer)
}

// loopback is an address of this machine that no other process of it asks for.
func loopback(network byte) string {
	pid := os.Getpid()
	return net.IPv4(127, network, byte(pid>>8), byte(pid)).String()
}

// alone says that the test runs in a network of its own.
const alone = "KVWATCH_TEST_ALONE"

// TestDNSDiscovery has kvwatch find engines by the A records of a headless
// service and by SRV records, by their short names as in a pod, and follow when
// records go. Discovery reads /etc/resolv.conf and asks port 53: kvwatch runs in a
// folder with an /etc of its own. That takes root's rights and a free port 53; who
// lacks them has them in a user and network namespace.
func TestDNSDiscovery(t *testing.T) {
	t.Parallel()
	if os.Getenv(alone) != "" {
		raiseLoopback(t)
	}
	server, err := newNameServer(t)
	if os.Getenv(alone) == "" && (err != nil || os.Geteuid() != 0) {
		runAlone(t)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	first, second, third := loopback(54), loopback(55), loopback(56)
	one := newEngineAt(t, first+":0").address()
	_, port, _ := net.SplitHostPort(one)
	two := newEngineAt(t, second+":"+port).address()
	_, thirdPort, _ := net.SplitHostPort(newEngineAt(t, third+":0").address())
	const headless = "vllm-headless.llm.svc.cluster.local. 1 IN A "
	server.holds(t, headless+first, headless+second,
		"_http._tcp.decode.llm.svc.cluster.local. 1 IN SRV 0 1 "+thirdPort+" decode-0.decode.llm.svc.cluster.local.",
		"decode-0.decode.llm.svc.cluster.local. 1 IN A "+third)

	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o750); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(root, "etc/resolv.conf"),
		"search llm.svc.cluster.local svc.cluster.local cluster.local\nnameserver "+server.address+"\noptions ndots:5\n")
	writeFile(t, filepath.Join(root, "kvwatch.yml"), fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms}
scrape_configs:
  - job_name: prefill
    dns_sd_configs: [{names: [vllm-headless], type: A, port: %s, refresh_interval: 1s}]
  - job_name: decode
    dns_sd_configs: [{names: [_http._tcp.decode], refresh_interval: 1s}]
`, port))
	p := startProgram(t, "kvwatch-jailed", root, "run", "--storage.path=/data", "--web.listen-address=127.0.0.1:0")
	p.eventually(t, "all engines are scraped", p.scrapes(
		"decode decode-0.decode.llm.svc.cluster.local:"+thirdPort, "prefill "+one, "prefill "+two))
	server.holds(t, headless+first)
	p.eventually(t, "the others are gone", p.scrapes("prefill "+one))
}

// scrapes checks that these, by job and instance, are all targets and are up.
func (p *process) scrapes(want ...string) func() error {
	return func() error {
		body, err := p.get("/api/v1/targets")
		if err != nil {
			return err
		}
		var answer struct {
			Data struct {
				ActiveTargets []struct {
					Labels map[string]string
					Health string
				}
			}
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			return err
		}
		var got []string
		for _, target := range answer.Data.ActiveTargets {
			if target.Health != "up" {
				return fmt.Errorf("%s is %s", target.Labels["instance"], target.Health)
			}
			got = append(got, target.Labels["job"]+" "+target.Labels["instance"])
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("targets are %q, want %q", got, want)
		}
		return nil
	}
}

// runAlone runs the test that calls it again, as root of a user namespace and
// with a network of its own.
func runAlone(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), alone+"=true")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if _, ran := errors.AsType[*exec.ExitError](err); err != nil && !ran {
		t.Fatalf("this test needs root and a free UDP port 53, or user namespaces, which this system refuses: %v", err)
	}
	if err != nil {
		t.Fatalf("in a network of its own: %v\n%s", err, out)
	}
}

// raiseLoopback brings up the interface lo, which a new network has down.
func raiseLoopback(t *testing.T) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo); err != nil {
		t.Fatalf("the loopback cannot be brought up in a network of its own: %v", err)
	}
}
