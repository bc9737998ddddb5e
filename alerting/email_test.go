package alerting

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"kvwatch/rules"
)

// mailServer is a real mail server that keeps what it takes.
type mailServer struct {
	address string
	ca      string // file of the certificate that signs the server's own

	mu     sync.Mutex
	got    []mailed
	refuse map[string]error // by step
	plain  bool             // offers PLAIN, else LOGIN
}

type mailed struct {
	from string
	to   []string
	text string
	user string
	tls  bool
}

// newMailServer starts one; without secure it offers no TLS.
func newMailServer(t *testing.T, secure bool) *mailServer {
	t.Helper()
	return newMailServerOn(t, secure, func(l net.Listener, _ *tls.Config) net.Listener { return l })
}

// newMailServerOn starts one on the listener that on makes of a plain one.
func newMailServerOn(t *testing.T, secure bool, on func(net.Listener, *tls.Config) net.Listener) *mailServer {
	t.Helper()
	certificate := httptest.NewTLSServer(http.NotFoundHandler()) // lends its certificate
	t.Cleanup(certificate.Close)
	m := &mailServer{ca: filepath.Join(t.TempDir(), "ca.pem"), refuse: map[string]error{}, plain: true}
	raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate().Raw})
	if err := os.WriteFile(m.ca, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		_, over := c.TLSConnectionState()
		return &mailSession{m: m, mail: mailed{tls: over}}, nil
	}))
	s.Domain = "mail.example.com"
	if secure {
		s.TLSConfig = &tls.Config{Certificates: certificate.TLS.Certificates, MinVersion: tls.VersionTLS12}
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.address = listener.Addr().String()
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(on(listener, s.TLSConfig)) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return m
}

func (m *mailServer) fail(step string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse[step] = err
}

func (m *mailServer) refused(step string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refuse[step]
}

func (m *mailServer) take() []mailed {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.got
	m.got = nil
	return out
}

type mailSession struct {
	m    *mailServer
	mail mailed
}

func (s *mailSession) AuthMechanisms() []string {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.plain {
		return []string{sasl.Plain, sasl.Login}
	}
	return []string{sasl.Login}
}

func (s *mailSession) Auth(mechanism string) (sasl.Server, error) {
	check := func(username, password string) error {
		if username != "kvwatch" || password != "s3cret" {
			return smtp.ErrAuthFailed
		}
		s.mail.user = mechanism
		return nil
	}
	if mechanism == sasl.Plain {
		return sasl.NewPlainServer(func(_, username, password string) error { return check(username, password) }), nil
	}
	return &loginServer{check: check}, nil
}

// loginServer is the server's side of LOGIN.
type loginServer struct {
	check    func(username, password string) error
	answers  []string
	question int
}

func (l *loginServer) Next(answer []byte) (challenge []byte, done bool, err error) {
	if l.question > 0 {
		l.answers = append(l.answers, string(answer))
	}
	l.question++
	if len(l.answers) == 2 {
		return nil, true, l.check(l.answers[0], l.answers[1])
	}
	return []byte([]string{"Username:", "Password:"}[l.question-1]), false, nil
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	s.mail.from = from
	return s.m.refused("MAIL")
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mail.to = append(s.mail.to, to)
	return s.m.refused("RCPT")
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err := errors.Join(err, s.m.refused("DATA")); err != nil {
		return s.m.refused("DATA")
	}
	s.mail.text = string(text)
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.got = append(s.m.got, s.mail)
	return nil
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }

func emailConfig(m *mailServer, more string) string {
	return fmt.Sprintf(`
route: {receiver: mail, group_by: [pool], group_interval: 1m}
receivers:
  - name: mail
    email_configs: [{to: "On Call <oncall@example.com>, boss@example.com", from: "kvwatch@example.com", smarthost: %q, tls_config: {ca_file: %q}%s}]
`, m.address, m.ca, more)
}

func TestEmail(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{true, false} {
		t.Run(fmt.Sprintf("PLAIN offered: %t", plain), func(t *testing.T) {
			t.Parallel()
			m := newMailServer(t, true)
			m.plain = plain
			d := open(t, "", emailConfig(m, ", auth_username: kvwatch, auth_password: s3cret"))
			at := play(t, d)
			a := fires("PrefixCacheCollapse", "critical", t0, "pool", "agents")
			a.Annotations["summary"] = "The prefix cache of añejo collapsed\r\nBcc: everybody"
			a.Evidence = rules.Evidence{Seen: "Miss ratio 69 %, usual 11 %.", Next: "Look at the router."}
			at(0, a)
			at(5*time.Second, a)
			got := m.take()
			if len(got) != 1 {
				t.Fatalf("%d messages, want one; %s", len(got), d.Incidents()[0].Deliveries[0].Error)
			}
			if want := map[bool]string{true: sasl.Plain, false: sasl.Login}[plain]; !got[0].tls || got[0].user != want || got[0].from != "kvwatch@example.com" ||
				!slices.Equal(got[0].to, []string{"oncall@example.com", "boss@example.com"}) {
				t.Errorf("the envelope is %+v", got[0])
			}
			first := readMail(t, got[0].text)
			if want := "CRITICAL: The prefix cache of añejo collapsed Bcc: everybody"; first.subject != want || first.header.Get("Bcc") != "" {
				t.Errorf("the subject is %q, want %q", first.subject, want)
			}
			for _, want := range []string{"🔴 CRITICAL\n", "Where: pool agents\n", "Seen: Miss ratio 69 %, usual 11 %.\n", "Next: Look at the router.\n", "kvwatch: http://kvwatch:14600\n"} {
				if !strings.Contains(first.body, want) {
					t.Errorf("the text lacks %q:\n%s", want, first.body)
				}
			}
			at(2*time.Minute, ends(a, t0.Add(2*time.Minute)))
			got = m.take()
			if len(got) != 1 {
				t.Fatalf("%d messages at the end, want one", len(got))
			}
			end := readMail(t, got[0].text)
			if id := first.header.Get("Message-ID"); !strings.HasPrefix(end.subject, "RESOLVED: ") || id == "" || end.header.Get("References") != id || end.header.Get("In-Reply-To") != id || end.header.Get("Message-ID") == id {
				t.Errorf("the end is no answer to %s: %v", id, end.header)
			}
		})
	}
}

type readable struct {
	header        mail.Header
	subject, body string
}

func readMail(t *testing.T, text string) readable {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	if err != nil {
		t.Fatal(err)
	}
	return readable{message.Header, subject, strings.ReplaceAll(string(body), "\r\n", "\n")}
}

// What fails says in which step, whether it may pass, and nobody's address.
func TestEmailThatFails(t *testing.T) {
	t.Parallel()
	refusal := func(code int) error {
		return &smtp.SMTPError{Code: code, Message: "no such user oncall@example.com"}
	}
	for _, tt := range []struct {
		name, more   string
		secure       bool
		step         string
		refusal      error
		want         string
		retry        bool
		wantMessages int
	}{
		{name: "a recipient that is unknown", secure: true, step: "RCPT", refusal: refusal(550), want: "the mail server answered 550 to RCPT TO"},
		{name: "a greylist", secure: true, step: "RCPT", refusal: refusal(451), want: "the mail server answered 451 to RCPT TO", retry: true},
		{name: "a sender that is refused", secure: true, step: "MAIL", refusal: refusal(553), want: "answered 553 to MAIL FROM"},
		{name: "a disk that is full", secure: true, step: "DATA", refusal: refusal(452), want: "answered 452 to the message", retry: true},
		{name: "a wrong password", secure: true, more: ", auth_username: kvwatch, auth_password: hunter2", want: "answered 535 to AUTH"},
		{name: "no TLS", want: "the server offers no TLS: set require_tls: false", retry: true},
		{name: "no TLS, allowed", more: ", require_tls: false", wantMessages: 1},
		{name: "a certificate of somebody else", secure: true, more: ", hello: me, send_resolved: false", step: "ca", want: "STARTTLS", retry: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMailServer(t, tt.secure)
			config := emailConfig(m, tt.more)
			if tt.step == "ca" {
				config = strings.Replace(config, fmt.Sprintf("ca_file: %q", m.ca), "server_name: other.example", 1)
			}
			m.fail(tt.step, tt.refusal)
			retry, err := built(t, config).Notify(t.Context(), contractNotification())
			if tt.wantMessages > 0 {
				if err != nil || len(m.take()) != tt.wantMessages {
					t.Errorf("retry %t, error %v", retry, err)
				}
				return
			}
			wantError(t, tt.name, err, tt.want)
			if retry != tt.retry || err != nil && (strings.Contains(err.Error(), "oncall@") || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("retry %t, want %t; %v", retry, tt.retry, err)
			}
		})
	}
}

// TestEmailOverImplicitTLS talks to a server that wants TLS before anything else, as
// on port 465, and is refused by one that does not.
func TestEmailOverImplicitTLS(t *testing.T) {
	t.Parallel()
	m := newMailServerOn(t, true, tls.NewListener)
	const login = ", auth_username: kvwatch, auth_password: s3cret"
	if _, err := built(t, emailConfig(m, login+", force_implicit_tls: true")).Notify(t.Context(), contractNotification()); err != nil {
		t.Fatal(err)
	}
	if got := m.take(); len(got) != 1 || !got[0].tls || got[0].user != sasl.Plain {
		t.Errorf("it took %+v", got)
	}
	retry, err := built(t, emailConfig(newMailServer(t, true), login+", force_implicit_tls: true")).Notify(t.Context(), contractNotification())
	if !retry || len(m.take()) != 0 {
		t.Errorf("retry %t", retry)
	}
	wantError(t, "a server that begins without TLS", err, "the mail server, at the connection: tls: ")
	for port, want := range map[string]bool{"465": true, "587": false, "25": false} {
		if e := (&email{port: port}); e.implicitTLS() != want {
			t.Errorf("port %s: %t", port, !want)
		}
	}
}

// A server that says nothing is given up when the time is over.
func TestEmailToASilentServer(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	retry, err := built(t, emailConfig(&mailServer{address: listener.Addr().String()}, "")).Notify(ctx, contractNotification())
	if !retry || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("retry %t, error %v", retry, err)
	}
}

func TestEmailSettings(t *testing.T) {
	t.Parallel()
	const fine = `to: a@example.com, from: b@example.com, smarthost: "mail:25"`
	for entry, want := range map[string]string{
		"{}": "to must be addresses",
		`{to: a@example.com, from: me, smarthost: "mail:25"}`:       "from must be an address",
		`{to: a@example.com, from: b@example.com, smarthost: mail}`: "smarthost must be host:port",
		"{" + fine + ", auth_username: u}":                          "auth_username goes with",
		"{" + fine + ", auth_password: p}":                          "auth_username goes with",
		"{" + fine + ", auth_password: p, auth_password_file: f}":   "give either auth_password",
		"{" + fine + `, hello: "a\nb"}`:                             "hello must be one line",
		"{" + fine + ", tls_config: {insecure: true}}":              `unknown key "insecure"`,
		"{" + fine + ", auth_identity: x}":                          `unknown key "auth_identity"`,
	} {
		_, err := parseConfig("receivers: [{name: a, email_configs: [" + entry + "]}]")
		wantError(t, entry, err, want)
	}
}
