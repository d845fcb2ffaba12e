# Made by `afl deploy nomad`. What is kept secret comes from the Nomad variable
# "nomad/jobs/$name": $secrets, and what you add to the template below.
job "$name" {
  type = "service"

  group "$name" {
    count = $replicas

    # A new instance is ready before an old one is told to stop.
    update {
      max_parallel      = 1
      canary            = 1
      auto_promote      = true
      auto_revert       = true
      health_check      = "checks"
      min_healthy_time  = "5s"
      healthy_deadline  = "${healthy_s}s"
      progress_deadline = "${rollout_s}s"
    }

    network {
      $ports
    }

    service {
      name     = "$name"
      provider = "nomad"
      port     = "$service_port"

      check {
        name     = "ready"
        type     = "http"
        port     = "health"
        path     = "/health/ready"
        interval = "${ready_period_s}s"
        timeout  = "3s"
      }
    }

    # Apart from the service above: only this check may restart the task.
    service {
      name     = "$name-live"
      provider = "nomad"
      port     = "health"

      check {
        name     = "live"
        type     = "http"
        path     = "/health/live"
        interval = "${live_period_s}s"
        timeout  = "5s"

        check_restart {
          limit = $live_failures
          grace = "${startup_s}s"
        }
      }
    }

    task "$name" {
      driver = "docker"
      user   = "$user_id"

      kill_signal = "SIGTERM"
      # More than $stop_budget. A client allows no more than 30 s
      # unless its configuration says: client { max_kill_timeout = "${stop_timeout_s}s" }
      kill_timeout = "${stop_timeout_s}s"
      $shutdown_delay

      config {
        image = "$image"
        # No shell: it would keep SIGTERM to itself. The first process is an init.
        init            = true
        entrypoint      = ["afl"]
        args            = $command
        ports           = $port_names
        readonly_rootfs = true
        cap_drop        = ["all"]
        security_opt    = ["no-new-privileges"]

        mount {
          type     = "tmpfs"
          target   = "/tmp"
          readonly = false
        }
      }

      env {
        $env
      }

      template {
        destination = "$${NOMAD_SECRETS_DIR}/agents.env"
        env         = true
        data        = <<-EOT
          {{ with nomadVar "nomad/jobs/$name" }}
          $secret_lines
          {{ end }}
        EOT
      }

      resources {
        cpu    = 250
        memory = 512
      }
    }
  }
}
