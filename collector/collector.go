// Package collector reads model servers and the gateway before them: it
// discovers targets, scrapes their metrics pages, drops what nobody wants on
// the raw bytes, gives what is left its canonical name and hands each round on
// to a function. It knows vLLM (V0 to 0.33) and LiteLLM; it imports nothing of
// kvwatch.
package collector
