package alerting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	commoncfg "github.com/prometheus/common/config"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"
	yaml "go.yaml.in/yaml/v3"
)

const (
	// slackSocketPause is the wait after Slack refused an app token: somebody has
	// to put another one in its place first.
	slackSocketPause = 5 * time.Minute
	// slackPressTimeout bounds the answer to one press.
	slackPressTimeout = 10 * time.Second
	// slackSocketLimit bounds a message of Slack's, in bytes.
	slackSocketLimit = 1 << 20
	// slackHooks is the host of the addresses at which Slack takes answers.
	slackHooks = "hooks.slack.com"
)

// slackSocket hears the buttons of one Slack app by Socket Mode, which needs no
// address that Slack can reach. slack-go connects again when a connection ends.
type slackSocket struct {
	settings slackSettings
	client   *http.Client
	logger   *slog.Logger
	pause    time.Duration

	// refused says that Slack does not take the app token: buttons would do
	// nothing, so that messages have links in their place.
	refused atomic.Bool
	// cut says that the connection is broken and that this was logged.
	cut atomic.Bool
}

// buttons says whether somebody hears them. A broken connection comes back, and
// the message would keep the buttons that it has.
func (s *slackSocket) buttons() bool { return s != nil && !s.refused.Load() }

// listen hears presses until ctx ends, and gives what pressed returns to the
// person who pressed.
func (s *slackSocket) listen(ctx context.Context, pressed func(press) string) {
	for ctx.Err() == nil {
		token, err := secretFrom("app_token_file", string(s.settings.AppToken), s.settings.AppTokenFile)
		if err == nil {
			err = s.connect(ctx, token, pressed)
		}
		if ctx.Err() != nil {
			return
		}
		s.refuse(err)
		timer := time.NewTimer(s.pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// refuse notes that there are no buttons, and says so once.
func (s *slackSocket) refuse(err error) {
	if s.refused.Swap(true) {
		return
	}
	text := withoutURL(err).Error()
	switch hint := slackHint(text); {
	case strings.HasPrefix(hint, "the app lacks the scope"):
		text += ": the app token lacks the scope connections:write: make a new one"
	case hint != "":
		text += ": " + strings.NewReplacer("token or token_file", "app_token or app_token_file", "the token", "the app token").Replace(hint)
	}
	s.logger.Error("Slack does not take the app token: messages go out with links in the place of buttons, and it is tried again every few minutes", "err", text)
}

// connect keeps a connection until ctx ends or Slack refuses the token.
func (s *slackSocket) connect(ctx context.Context, token string, pressed func(press) string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dialer, err := s.dialer()
	if err != nil {
		return err
	}
	options := append(s.settings.options(s.client, time.Now()), slack.OptionAppLevelToken(token))
	client := socketmode.New(slack.New("", options...), socketmode.OptionDialer(dialer),
		socketmode.OptionReadLimit(slackSocketLimit), socketmode.OptionLog(unlogged{}))
	refused := make(chan error, 1)
	var events sync.WaitGroup
	defer events.Wait()
	defer cancel()
	events.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case event := <-client.Events:
				if err := s.event(ctx, client, event, pressed); err != nil {
					refused <- err
					cancel()
					return
				}
			}
		}
	})
	err = client.RunContext(ctx)
	select {
	case err = <-refused:
	default:
	}
	return err
}

// dialer goes the way that http_config says.
func (s *slackSocket) dialer() (*websocket.Dialer, error) {
	tls, err := commoncfg.NewTLSConfig(&s.settings.HTTPConfig.TLSConfig)
	if err != nil {
		return nil, fmt.Errorf("http_config: %w", err)
	}
	// slack-go's sizes: Slack does not take an answer in two frames.
	return &websocket.Dialer{Proxy: s.settings.HTTPConfig.Proxy(), TLSClientConfig: tls, HandshakeTimeout: 45 * time.Second, WriteBufferSize: 32 << 10}, nil
}

// event takes one of slack-go's events. An error is a refusal.
func (s *slackSocket) event(ctx context.Context, client *socketmode.Client, event socketmode.Event, pressed func(press) string) error {
	switch event.Type {
	case socketmode.EventTypeConnected:
		if refused, cut := s.refused.Swap(false), s.cut.Swap(false); refused || cut {
			s.logger.Info("Slack's buttons work again")
		}
	case socketmode.EventTypeConnectionError:
		failure, ok := event.Data.(*slack.ConnectionErrorEvent)
		if !ok {
			return nil
		}
		if answer, ok := errors.AsType[slack.SlackErrorResponse](failure.ErrorObj); ok && !slackPasses(answer.Err) {
			return answer
		}
		if !s.cut.Swap(true) {
			s.logger.Warn("Slack's buttons do not work for now: the connection is tried again", "err", withoutURL(failure.ErrorObj))
		}
	case socketmode.EventTypeInteractive, socketmode.EventTypeEventsAPI, socketmode.EventTypeSlashCommand:
		if event.Request != nil {
			if err := client.AckCtx(ctx, event.Request.EnvelopeID, nil); err != nil {
				s.logger.Warn("A press of a button in Slack could not be answered", "err", err)
			}
		}
		if callback, ok := event.Data.(slack.InteractionCallback); ok {
			s.interaction(ctx, callback, pressed)
		}
	case socketmode.EventTypeConnecting, socketmode.EventTypeInvalidAuth, socketmode.EventTypeIncomingError, socketmode.EventTypeErrorWriteFailed,
		socketmode.EventTypeErrorBadMessage, socketmode.EventTypeHello, socketmode.EventTypeDisconnect:
		// slack-go does what there is to do, or returns.
	}
	return nil
}

// unlogged keeps slack-go from logging by itself: it would go to standard error.
type unlogged struct{}

// Output does nothing.
func (unlogged) Output(int, string) error { return nil }

// The buttons, by what Slack tells when one is pressed.
const (
	slackAcknowledge = "kvwatch_acknowledge"
	slackSilence1h   = "kvwatch_silence_1h"
	slackSilence4h   = "kvwatch_silence_4h"
	// slackFollow begins the name of a button that opens an address; Slack tells
	// of it as well, and there is nothing to do.
	slackFollow = "kvwatch_link"
)

// interaction does what was pressed and answers the person, whom nobody else sees
// answered.
func (s *slackSocket) interaction(ctx context.Context, c slack.InteractionCallback, pressed func(press) string) {
	ctx, cancel := context.WithTimeout(ctx, slackPressTimeout)
	defer cancel()
	for _, action := range c.ActionCallback.BlockActions {
		if action == nil || strings.HasPrefix(action.ActionID, slackFollow) {
			continue
		}
		text := ""
		if p, err := slackPress(c, action.ActionID); err != nil {
			text = "kvwatch cannot read what was pressed: " + err.Error() + ". Nothing was changed."
		} else {
			text = pressed(p)
		}
		if err := s.answer(ctx, c.ResponseURL, text); err != nil {
			s.logger.Warn("Somebody who pressed a button in Slack could not be answered", "err", err)
		}
	}
}

// slackPress reads a press.
func slackPress(c slack.InteractionCallback, action string) (p press, err error) {
	switch action {
	case slackAcknowledge:
	case slackSilence1h:
		p.silence = time.Hour
	case slackSilence4h:
		p.silence = 4 * time.Hour
	default:
		return p, errors.New("it is none of its buttons")
	}
	channel, stamp := c.Container.ChannelID, c.Container.MessageTs
	if channel == "" || stamp == "" {
		return p, errors.New("it does not say below which message")
	}
	p.note, p.message = slackThread, channel+" "+stamp
	p.by, err = personName(c.User.Profile.DisplayName, c.User.Name, c.User.ID)
	return p, err
}

// answer says something to the person who pressed, and to nobody else.
func (s *slackSocket) answer(ctx context.Context, address, text string) error {
	if text == "" || address == "" {
		return nil
	}
	if !s.answers(address) {
		return errors.New("the address for the answer is not Slack's")
	}
	_, err := postJSON(ctx, s.client, address, slack.WebhookMessage{ResponseType: slack.ResponseTypeEphemeral, Text: slackEscape(text)}, time.Now())
	return err
}

// answers says whether answers may go to an address: to Slack's, or to where its
// Web API is said to be.
func (s *slackSocket) answers(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	if u.Scheme == "https" && u.Host == slackHooks {
		return true
	}
	own, err := url.Parse(string(s.settings.APIURL))
	return err == nil && own.Host != "" && u.Scheme == own.Scheme && u.Host == own.Host
}

// slackSockets are the apps whose buttons are heard. Slack tells of a press by
// one of an app's connections, so that all receivers with one app share one.
type slackSockets struct {
	mu      sync.Mutex
	apps    map[string]*slackSocket
	changed chan struct{}
}

func newSlackSockets() *slackSockets {
	return &slackSockets{apps: map[string]*slackSocket{}, changed: make(chan struct{}, 1)}
}

// of returns the socket of the settings' app, nil where they have none.
func (s *slackSockets) of(settings slackSettings, client *http.Client, logger *slog.Logger) (*slackSocket, error) {
	if s == nil || !settings.socket() {
		return nil, nil //nolint:nilnil // nobody hears
	}
	way, err := yaml.Marshal(settings.HTTPConfig)
	if err != nil {
		return nil, err
	}
	key := strings.Join([]string{string(settings.AppToken), settings.AppTokenFile, string(settings.APIURL), string(way)}, "\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apps[key] == nil {
		s.apps[key] = &slackSocket{settings: settings, client: client, logger: logger, pause: slackSocketPause}
	}
	return s.apps[key], nil
}

// keep forgets the apps that no receiver uses any more.
func (s *slackSockets) keep(parts []part) {
	used := map[*slackSocket]bool{}
	for _, p := range parts {
		if b, ok := p.built.(*slackBot); ok {
			used[b.socket] = true
		}
	}
	s.mu.Lock()
	for key, app := range s.apps {
		if !used[app] {
			delete(s.apps, key)
		}
	}
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// run hears all apps until ctx ends, those of a new configuration too.
func (s *slackSockets) run(ctx context.Context, pressed func(press) string) {
	var listening sync.WaitGroup
	defer listening.Wait()
	running := map[*slackSocket]context.CancelFunc{}
	defer func() {
		for _, stop := range running {
			stop()
		}
	}()
	for {
		wanted := map[*slackSocket]bool{}
		s.mu.Lock()
		for _, app := range s.apps {
			wanted[app] = true
		}
		s.mu.Unlock()
		for app, stop := range running {
			if !wanted[app] {
				stop()
				delete(running, app)
			}
		}
		for app := range wanted {
			if running[app] == nil {
				listened, stop := context.WithCancel(ctx)
				running[app] = stop
				listening.Go(func() { app.listen(listened, pressed) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		}
	}
}
