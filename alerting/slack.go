package alerting

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	commoncfg "github.com/prometheus/common/config"
	"github.com/slack-go/slack"
)

func init() {
	register("slack", kind{
		help: "Keeps one Slack thread for each incident, its first message always up to date (bot token), " +
			"or posts a message when something begins and ends (incoming webhook).",
		example: `{token: "xoxb-example", channel: "#llm-oncall", api_url: "http://127.0.0.1:9/"}`,
		new:     func() settings { return &slackSettings{} },
	})
}

// slackSettings is one entry of slack_configs: a bot token and a channel, or
// the address of an incoming webhook.
type slackSettings struct {
	SendResolved bool `yaml:"send_resolved"`
	// Token or TokenFile is a bot token with the scope chat:write. The bot must
	// be a member of Channel, or have chat:write.public.
	Token     commoncfg.Secret `yaml:"token,omitempty"`
	TokenFile string           `yaml:"token_file,omitempty"`
	// Channel is a name with # or an ID.
	Channel string `yaml:"channel,omitempty"`
	// Chart adds a picture to the thread, with a bot token that has files:write.
	Chart bool `yaml:"chart"`
	// AppToken or AppTokenFile is an app token with the scope connections:write:
	// with it the messages have buttons that do something, heard by Socket Mode.
	AppToken     commoncfg.Secret `yaml:"app_token,omitempty"`
	AppTokenFile string           `yaml:"app_token_file,omitempty"`
	// APIURL is an incoming webhook's address; beside a token it is where
	// Slack's Web API is, if not at Slack's.
	APIURL     commoncfg.Secret           `yaml:"api_url,omitempty"`
	APIURLFile string                     `yaml:"api_url_file,omitempty"`
	HTTPConfig commoncfg.HTTPClientConfig `yaml:"http_config,omitempty"`
}

// UnmarshalYAML sets defaults, decodes and checks.
func (s *slackSettings) UnmarshalYAML(unmarshal func(any) error) error {
	*s = slackSettings{SendResolved: true, Chart: true, HTTPConfig: commoncfg.DefaultHTTPClientConfig}
	type plain slackSettings
	if err := unmarshal((*plain)(s)); err != nil {
		return err
	}
	switch {
	case s.Token != "" && s.TokenFile != "":
		return errors.New("token and token_file are both there: keep one")
	case s.AppToken != "" && s.AppTokenFile != "":
		return errors.New("app_token and app_token_file are both there: keep one")
	case s.socket() && !s.bot():
		return errors.New("an app token is for the buttons of messages that a bot posts: give token or token_file and channel as well")
	case s.bot() && s.Channel == "":
		return errors.New("channel is missing: with a token, say where to post, as in channel: \"#llm-oncall\"")
	case s.bot() && s.APIURLFile != "":
		return errors.New("api_url_file is an incoming webhook's address, which does not go with a token: keep one")
	case !s.bot() && (s.APIURL == "") == (s.APIURLFile == ""):
		return errors.New("give either a bot token (token or token_file, and channel) or an incoming webhook (api_url or api_url_file)")
	case s.APIURL != "":
		return checkAddress("api_url", string(s.APIURL))
	default:
		return nil
	}
}

// bot says whether messages go by a bot token, and not by an incoming webhook.
func (s *slackSettings) bot() bool { return s.Token != "" || s.TokenFile != "" }

// socket says whether buttons are heard.
func (s *slackSettings) socket() bool { return s.AppToken != "" || s.AppTokenFile != "" }

func (s *slackSettings) traits() traits {
	return traits{sendResolved: s.SendResolved, edits: s.bot(), reports: true}
}

func (s *slackSettings) setDirectory(dir string) {
	s.TokenFile = commoncfg.JoinDir(dir, s.TokenFile)
	s.AppTokenFile = commoncfg.JoinDir(dir, s.AppTokenFile)
	s.APIURLFile = commoncfg.JoinDir(dir, s.APIURLFile)
	s.HTTPConfig.SetDirectory(dir)
}

func (s *slackSettings) receiver(e environment) (Receiver, error) {
	client, err := commoncfg.NewClientFromConfig(s.HTTPConfig, "slack")
	if err != nil {
		return nil, fmt.Errorf("http_config: %w", err)
	}
	if s.bot() {
		socket, err := e.sockets.of(*s, client, e.logger)
		return &slackBot{settings: *s, client: client, past: e.past, socket: socket}, err
	}
	return &slackWebhook{settings: *s, client: client}, nil
}

// slackWebhook posts by an incoming webhook, which can neither edit nor reply.
type slackWebhook struct {
	settings slackSettings
	client   *http.Client
}

// Notify posts one message with everything in it.
func (w *slackWebhook) Notify(ctx context.Context, n Notification) (retry bool, err error) {
	return w.post(ctx, slackFallback(n), slackWhole(n), n.Now)
}

// post posts one message.
func (w *slackWebhook) post(ctx context.Context, text string, blocks []slack.Block, now time.Time) (retry bool, err error) {
	address, err := addressFrom("api_url_file", string(w.settings.APIURL), w.settings.APIURLFile)
	if err != nil {
		return false, err
	}
	no := false
	retry, err = postJSON(ctx, w.client, address, slack.WebhookMessage{
		Channel:     w.settings.Channel,
		Text:        text,
		Blocks:      &slack.Blocks{BlockSet: blocks},
		UnfurlLinks: &no, UnfurlMedia: &no,
	}, now)
	if err != nil {
		return retry, fmt.Errorf("slack: incoming webhook: %w", err)
	}
	return false, nil
}

// What slackBot notes of an incident.
const (
	// slackThread is the channel's ID and the root's time stamp.
	slackThread = "slack_thread"
	// slackSaid is the last notification that has its reply in the thread.
	slackSaid = "slack_said"
)

// slackBot keeps a thread for each incident: the root always shows how it
// stands, replies say what happened.
type slackBot struct {
	settings slackSettings
	client   *http.Client
	past     Past
	socket   *slackSocket
}

// Notify brings the root up to date and replies in its thread. What was done of
// a notification before it failed, or before the daemon ended, is not done twice.
func (b *slackBot) Notify(ctx context.Context, n Notification) (retry bool, err error) {
	api, err := b.api(n.Now)
	if err != nil {
		return false, err
	}
	channel, root, err := b.root(ctx, api, n)
	if err != nil {
		return slackError(err)
	}
	said := fmt.Sprintf("%d:%s", n.Sequence, n.Reason)
	text, blocks, broadcast := slackReply(n, n.Memory.Get(slackSaid) == "")
	if len(blocks) == 0 || n.Memory.Get(slackSaid) == said {
		return false, nil
	}
	options := append(message(text, blocks), slack.MsgOptionTS(root))
	if broadcast {
		options = append(options, slack.MsgOptionBroadcast())
	}
	if _, _, err := api.PostMessageContext(ctx, channel, options...); err != nil {
		return slackError(err)
	}
	n.Memory.Set(slackSaid, said)
	return false, nil
}

// api is Slack's Web API with the token as it is now.
func (b *slackBot) api(now time.Time) (*slack.Client, error) {
	token, err := secretFrom("token_file", string(b.settings.Token), b.settings.TokenFile)
	if err != nil {
		return nil, err
	}
	return slack.New(token, b.settings.options(b.client, now)...), nil
}

// options say by which client and where Slack's Web API is asked.
func (s *slackSettings) options(client *http.Client, now time.Time) []slack.Option {
	options := []slack.Option{slack.OptionHTTPClient(slackHTTP{client, now})}
	if s.APIURL != "" {
		options = append(options, slack.OptionAPIURL(strings.TrimSuffix(string(s.APIURL), "/")+"/"))
	}
	return options
}

// root edits the incident's first message, or posts it where there is none.
func (b *slackBot) root(ctx context.Context, api *slack.Client, n Notification) (channel, stamp string, err error) {
	content := message(slackFallback(n), slackRoot(n, b.socket.buttons()))
	channel, stamp, known := strings.Cut(n.Memory.Get(slackThread), " ")
	if known {
		_, _, _, err = api.UpdateMessageContext(ctx, channel, stamp, content...)
		if !slackSays(err, "message_not_found", "cant_update_message", "edit_window_closed") {
			return channel, stamp, err
		}
	}
	channel, stamp, err = api.PostMessageContext(ctx, b.settings.Channel, content...)
	if err != nil {
		return "", "", err
	}
	n.Memory.Set(slackThread, channel+" "+stamp)
	return channel, stamp, nil
}

func message(text string, blocks []slack.Block) []slack.MsgOption {
	return []slack.MsgOption{
		slack.MsgOptionText(text, false),
		slack.MsgOptionBlocks(blocks...),
		slack.MsgOptionDisableLinkUnfurl(),
		slack.MsgOptionDisableMediaUnfurl(),
	}
}

// slackHTTP judges answers as every receiver here does, before slack-go sees
// them: it would lose the Retry-After of a 503 and one that is a date.
type slackHTTP struct {
	client *http.Client
	now    time.Time
}

// slackRefusal is an answer that is not 2xx.
type slackRefusal struct {
	retry bool
	err   error
}

// Error says what the server answered.
func (r *slackRefusal) Error() string { return r.err.Error() }

// Unwrap returns the answer.
func (r *slackRefusal) Unwrap() error { return r.err }

// Do makes the request and turns a refusal into an error.
func (h slackHTTP) Do(req *http.Request) (*http.Response, error) {
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, err
	}
	if retry, err := checkStatus(resp.StatusCode, resp.Header, h.now); err != nil {
		drain(resp)
		return nil, &slackRefusal{retry, err}
	}
	return resp, nil
}

// slackPasses says whether one of Slack's errors passes by itself.
func slackPasses(code string) bool {
	switch code {
	case "ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org":
		return true
	}
	return false
}

// slackHint says what to do about one of Slack's errors, "" where the code says it.
func slackHint(code string) string {
	switch code {
	case "channel_not_found":
		return "there is no such channel, or the bot cannot see it: check channel, and invite the bot"
	case "not_in_channel":
		return "invite the bot to the channel"
	case "is_archived":
		return "the channel is archived: give another channel"
	case "invalid_auth":
		return "Slack does not know the token: check token or token_file"
	case "not_authed":
		return "Slack got no token: check token or token_file"
	case "token_revoked":
		return "the token was revoked: install the app again and use its new token"
	case "token_expired":
		return "the token has expired: use a new one"
	case "account_inactive":
		return "the app was removed from the workspace: install it again and use its new token"
	case "missing_scope":
		return "the app lacks the scope chat:write: add it and install the app again"
	case "restricted_action", "no_permission":
		return "the workspace does not let the bot post there"
	case "msg_too_long", "invalid_blocks":
		return "Slack does not take the message as it is laid out; please report this"
	}
	return ""
}

// slackError says whether a failure passes, and what to do if it does not.
func slackError(err error) (retry bool, _ error) {
	var refusal *slackRefusal
	var answer slack.SlackErrorResponse
	var limited *slack.RateLimitedError
	switch {
	case errors.As(err, &refusal):
		return refusal.retry, fmt.Errorf("slack: %w", refusal.err)
	case errors.As(err, &limited):
		return true, &RetryAfterError{After: limited.RetryAfter, Err: errors.New("slack: rate limited")}
	case errors.As(err, &answer):
		text := "slack: " + answer.Err
		if hint := slackHint(answer.Err); hint != "" {
			text += ": " + hint
		}
		return slackPasses(answer.Err), errors.New(text)
	default:
		return true, fmt.Errorf("slack: %w", withoutURL(err))
	}
}

// slackSays tells whether Slack answered with one of the codes.
func slackSays(err error, codes ...string) bool {
	answer, ok := errors.AsType[slack.SlackErrorResponse](err)
	return ok && slices.Contains(codes, answer.Err)
}
