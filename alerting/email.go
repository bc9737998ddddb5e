package alerting

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	commoncfg "github.com/prometheus/common/config"
)

func init() {
	register("email", kind{
		help:    "Sends e-mail by a mail server (SMTP): one thread for each incident.",
		example: `{to: "oncall@example.com", from: "kvwatch@example.com", smarthost: "127.0.0.1:9"}`,
		new:     func() settings { return &emailSettings{} },
	})
}

// submissions is the port on which TLS comes before anything else.
const submissions = "465"

// emailSettings is one entry of email_configs, in Alertmanager's words.
type emailSettings struct {
	SendResolved bool `yaml:"send_resolved"`
	// To are the addresses that are told, with commas between; From is ours.
	To   string `yaml:"to"`
	From string `yaml:"from"`
	// Smarthost is the mail server: host:port. On port 465 TLS comes first.
	Smarthost string `yaml:"smarthost"`
	// Hello is how we name ourselves to the server.
	Hello string `yaml:"hello,omitempty"`
	// AuthUsername with AuthPassword or AuthPasswordFile are the account at the server.
	AuthUsername     string           `yaml:"auth_username,omitempty"`
	AuthPassword     commoncfg.Secret `yaml:"auth_password,omitempty"`
	AuthPasswordFile string           `yaml:"auth_password_file,omitempty"`
	// RequireTLS refuses servers without STARTTLS.
	RequireTLS bool                `yaml:"require_tls"`
	TLSConfig  commoncfg.TLSConfig `yaml:"tls_config,omitempty"`
	// ForceImplicitTLS says whether TLS comes before anything else; left out, it
	// does on port 465.
	ForceImplicitTLS *bool `yaml:"force_implicit_tls,omitempty"`

	to   []*mail.Address
	from *mail.Address
}

// UnmarshalYAML sets defaults, decodes and checks.
func (s *emailSettings) UnmarshalYAML(unmarshal func(any) error) error {
	*s = emailSettings{SendResolved: true, RequireTLS: true, Hello: "localhost"}
	type plain emailSettings
	if err := unmarshal((*plain)(s)); err != nil {
		return err
	}
	var err error
	if s.to, err = mail.ParseAddressList(s.To); err != nil {
		return errors.New("to must be addresses such as oncall@example.com, with commas between")
	}
	if s.from, err = mail.ParseAddress(s.From); err != nil {
		return errors.New("from must be an address such as kvwatch@example.com")
	}
	if host, port, err := net.SplitHostPort(s.Smarthost); err != nil || host == "" || port == "" {
		return errors.New("smarthost must be host:port, such as mail.example.com:587")
	}
	switch password := s.AuthPassword != "" || s.AuthPasswordFile != ""; {
	case s.AuthPassword != "" && s.AuthPasswordFile != "":
		return errors.New("give either auth_password or auth_password_file")
	case password != (s.AuthUsername != ""):
		return errors.New("auth_username goes with auth_password or auth_password_file")
	case strings.ContainsAny(s.Hello, "\r\n"):
		return errors.New("hello must be one line")
	}
	return nil
}

func (s *emailSettings) traits() traits { return traits{sendResolved: s.SendResolved, reports: true} }

func (s *emailSettings) setDirectory(dir string) {
	s.AuthPasswordFile = commoncfg.JoinDir(dir, s.AuthPasswordFile)
	s.TLSConfig.SetDirectory(dir)
}

func (s *emailSettings) receiver(environment) (Receiver, error) {
	config, err := commoncfg.NewTLSConfig(&s.TLSConfig)
	if err != nil {
		return nil, fmt.Errorf("tls_config: %w", err)
	}
	host, port, err := net.SplitHostPort(s.Smarthost)
	if err != nil {
		return nil, fmt.Errorf("smarthost: %w", err)
	}
	if config.ServerName == "" {
		config.ServerName = host
	}
	return &email{settings: *s, host: host, port: port, tls: config}, nil
}

// email sends messages by a mail server.
type email struct {
	settings   emailSettings
	host, port string
	tls        *tls.Config
}

// emailThread is the key under which the first message of an incident is kept.
const emailThread = "email_thread"

// Notify sends one message.
func (e *email) Notify(ctx context.Context, n Notification) (retry bool, err error) {
	id := messageID(e.settings.from.Address, n.GroupKey, n.Receiver, n.Now.Format(time.RFC3339Nano))
	thread := n.Memory.Get(emailThread)
	retry, err = e.deliver(ctx, letter{id: id, thread: thread, subject: emailSubject(n), text: emailText(n), at: n.Now})
	if err == nil && thread == "" {
		n.Memory.Set(emailThread, id)
	}
	return retry, err
}

// Report sends one message that is no part of a thread. One that is sent again
// has the same name.
func (e *email) Report(ctx context.Context, r Report, _ time.Time) (retry bool, err error) {
	return e.deliver(ctx, letter{
		id: messageID(e.settings.from.Address, r.ID), subject: cut(r.Title, 200), text: reportText(r), at: r.At,
	})
}

// letter is one message; thread is the first one of its incident, if there is one.
type letter struct {
	id, thread, subject, text string
	at                        time.Time
}

// deliver sends a letter.
func (e *email) deliver(ctx context.Context, l letter) (retry bool, err error) {
	password, err := secretFrom("auth_password_file", string(e.settings.AuthPassword), e.settings.AuthPasswordFile)
	if err != nil {
		return false, err
	}
	text, err := e.message(l)
	if err != nil {
		return false, err
	}
	if err := e.send(ctx, password, text); err != nil {
		if ctx.Err() != nil {
			return true, withoutURL(ctx.Err())
		}
		answer, refused := errors.AsType[*textproto.Error](err)
		return !refused || answer.Code/100 == 4, plainAnswer(err)
	}
	return false, nil
}

// plainAnswer leaves of a server's answer its number: the text may repeat the
// addresses of people.
func plainAnswer(err error) error {
	step, answer := "", (*textproto.Error)(nil)
	if s, ok := errors.AsType[*stepError](err); ok {
		step = s.step
	}
	if errors.As(err, &answer) {
		return fmt.Errorf("the mail server answered %d to %s", answer.Code, step)
	}
	return err
}

// stepError says in which step of the conversation something failed.
type stepError struct {
	step string
	err  error
}

// Error says what failed.
func (e *stepError) Error() string { return fmt.Sprintf("the mail server, at %s: %v", e.step, e.err) }

// Unwrap returns why.
func (e *stepError) Unwrap() error { return e.err }

func step(name string, err error) error {
	if err == nil {
		return nil
	}
	return &stepError{name, err}
}

// implicitTLS says whether TLS comes before anything else.
func (e *email) implicitTLS() bool {
	if force := e.settings.ForceImplicitTLS; force != nil {
		return *force
	}
	return e.port == submissions
}

// send talks to the server. Each step that fails ends it; the message counts as
// sent once the server has taken its text.
func (e *email) send(ctx context.Context, password string, text []byte) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(e.host, e.port))
	if err != nil {
		return step("the connection", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if e.implicitTLS() {
		conn = tls.Client(conn, e.tls)
	}
	client, err := smtp.NewClient(conn, e.host)
	if err != nil {
		return step("the connection", err)
	}
	if err := step("EHLO", client.Hello(e.settings.Hello)); err != nil {
		return err
	}
	if !e.implicitTLS() {
		if err := step("STARTTLS", e.startTLS(client)); err != nil {
			return err
		}
	}
	if e.settings.AuthUsername != "" {
		if err := step("AUTH", client.Auth(e.auth(client, password))); err != nil {
			return err
		}
	}
	if err := step("MAIL FROM", client.Mail(e.settings.from.Address)); err != nil {
		return err
	}
	for _, to := range e.settings.to {
		if err := step("RCPT TO", client.Rcpt(to.Address)); err != nil {
			return err
		}
	}
	body, err := client.Data()
	if err != nil {
		return step("DATA", err)
	}
	_, err = body.Write(text)
	if err := step("the message", errors.Join(err, body.Close())); err != nil {
		return err
	}
	_ = client.Quit() // it has been taken
	return nil
}

func (e *email) startTLS(client *smtp.Client) error {
	if offered, _ := client.Extension("STARTTLS"); offered {
		return client.StartTLS(e.tls)
	}
	if e.settings.RequireTLS {
		return errors.New("the server offers no TLS: set require_tls: false to send without")
	}
	return nil
}

// auth chooses how to log in: PLAIN, else LOGIN, which some servers know alone.
func (e *email) auth(client *smtp.Client, password string) smtp.Auth {
	if _, mechanisms := client.Extension("AUTH"); strings.Contains(mechanisms, "LOGIN") && !strings.Contains(mechanisms, "PLAIN") {
		return &loginAuth{username: e.settings.AuthUsername, password: password}
	}
	return smtp.PlainAuth("", e.settings.AuthUsername, password, e.host)
}

// loginAuth is the mechanism LOGIN, which the library lacks.
type loginAuth struct {
	username, password string
	said               int
}

// Start begins, over TLS alone.
func (a *loginAuth) Start(server *smtp.ServerInfo) (string, []byte, error) {
	if !server.TLS {
		return "", nil, errors.New("the password is not sent without TLS")
	}
	return "LOGIN", nil, nil
}

// Next answers the server's two questions.
func (a *loginAuth) Next(_ []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	a.said++
	switch a.said {
	case 1:
		return []byte(a.username), nil
	case 2:
		return []byte(a.password), nil
	default:
		return nil, errors.New("the server asks for more than name and password")
	}
}

// messageID names a message for ever, by what it is about.
func messageID(from string, about ...string) string {
	_, domain, _ := strings.Cut(from, "@")
	sum := sha256.Sum256([]byte(strings.Join(about, "\n")))
	return fmt.Sprintf("<%s@%s>", hex.EncodeToString(sum[:16]), cmp.Or(domain, "kvwatch"))
}

// message is the whole text with its headers.
func (e *email) message(l letter) ([]byte, error) {
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	to := make([]string, 0, len(e.settings.to))
	for _, a := range e.settings.to {
		to = append(to, a.String())
	}
	header("From", e.settings.from.String())
	header("To", strings.Join(to, ", "))
	header("Subject", mime.QEncoding.Encode("utf-8", l.subject))
	header("Date", l.at.Format(time.RFC1123Z))
	header("Message-ID", l.id)
	if l.thread != "" {
		header("In-Reply-To", l.thread)
		header("References", l.thread)
	}
	header("Auto-Submitted", "auto-generated")
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, err := w.Write([]byte(l.text))
	return b.Bytes(), errors.Join(err, w.Close())
}

// emailSubject says how bad it is and what it is about.
func emailSubject(n Notification) string {
	return cut(markOf(n.Status(), worst(n.Alerts)).word+": "+title(n.Alerts), 200)
}

// emailText is the message for people, one statement a line: the screen it is
// read on breaks the lines.
func emailText(n Notification) string {
	if len(n.Alerts) == 0 {
		return ""
	}
	var b strings.Builder
	first := n.Alerts[0]
	state := standing(n.Alerts)
	if r := remark(n.Reason); r != "" {
		state += ", " + r
	}
	fmt.Fprintf(&b, "%s\n%s\n\n", state, title(n.Alerts))
	lines := notEmpty([]line{{"Where", place(first.Labels)}, {"When", period(n.Alerts, n.Now, clockAt(n.Now, "15:04"))}})
	lines = append(append(lines, statements(first)...), details(first)...)
	for _, l := range lines {
		fmt.Fprintf(&b, "%s: %s\n", l.name, l.text)
	}
	if also := others(n.Alerts); len(also) > 0 {
		b.WriteString("\n" + strings.Join(also, "\n") + "\n")
	}
	b.WriteString("\n")
	for _, l := range append(links(n, first), line{"Alert", first.Name}) {
		fmt.Fprintf(&b, "%s: %s\n", l.name, l.text)
	}
	return b.String()
}
