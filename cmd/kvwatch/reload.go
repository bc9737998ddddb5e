package main

import (
	"errors"
	"slices"
	"time"
)

// reload reads the configuration again. All of it is checked before anything
// changes; history, alert states and known series stay.
func (d *daemon) reload() error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	err := d.tryReload()
	if err != nil {
		d.metrics.reloadSuccess.Set(0)
		d.log.Error("the configuration was not reloaded; the old one stays in force", "file", d.o.ConfigFile, "err", err)
		return err
	}
	d.metrics.reloadSuccess.Set(1)
	d.metrics.reloadTime.SetToCurrentTime()
	d.log.Info("configuration reloaded", "file", d.o.ConfigFile)
	return nil
}

func (d *daemon) tryReload() error {
	if d.o.ConfigFile == "" {
		return errors.New("there is no configuration file to reload: this is the demo")
	}
	if d.server.page.Load() == nil {
		return errors.New("kvwatch is still starting; try again in a few seconds")
	}
	c, err := loadConfig(d.o.ConfigFile)
	if err != nil {
		return err
	}
	if err := c.build(); err != nil {
		return err
	}
	if err := d.swap(c); err != nil {
		return err
	}
	d.setGlobal(c.Global)
	d.reviews.reload(c)
	d.setSchedules(c.Schedules)
	d.plans.reload(c)
	d.scheduler.hasten(jobSizing, time.Now())
	d.o.Config = c
	return nil
}

// swap gives the new configuration to one part after the other. When one of
// them refuses what it only sees now (such as an engine that two pools claim),
// those before it go back to the old one, which they had taken once.
func (d *daemon) swap(c *Config) error {
	parts := []struct {
		name string
		take func(*Config) error
	}{
		{"receivers", func(c *Config) error { return d.dispatcher.Reload(c.Alerting) }},
		{"rules", func(c *Config) error {
			return d.engine.Reload(c.Pools, c.Rules, time.Duration(c.Global.ScrapeInterval))
		}},
		{"remote_write", func(c *Config) error { return d.writer.Apply(c.Global.ExternalLabels, c.RemoteWrite) }},
		{"intake", d.intake.reload},
	}
	for i, part := range parts {
		err := named(part.name, part.take(c))
		if err == nil {
			continue
		}
		for _, before := range slices.Backward(parts[:i+1]) {
			err = errors.Join(err, named("going back, "+before.name, before.take(d.o.Config)))
		}
		return err
	}
	return nil
}
