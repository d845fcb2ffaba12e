"""Amazon ECS: a CloudFormation template with a task definition, a service, and a target group of a
load balancer if it takes requests."""

from __future__ import annotations

from afl.operations.deploying.options import DeployOptions, LaunchType
from afl.operations.deploying.running import (
    Rendered,
    arguments,
    common_values,
    environment,
    health_check,
)
from afl.operations.deploying.templates import Value, filled, words
from afl.operations.deploying.times import Times, require_fit, times_of

#: The most that ECS lets a task definition ask for, between SIGTERM and SIGKILL.
STOP_TIMEOUT_LIMITS_S = {LaunchType.FARGATE: 120, LaunchType.EC2: 7_200}
#: The most that a target group leaves to open connections, and a container to its start.
_MOST_DEREGISTRATION_S = 3_600
_MOST_START_PERIOD_S = 300
_ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - requests come from a load balancer

#: What only the template of a service behind a load balancer has.
_SERVING = (
    "serving_parameters",
    "serving_secrets",
    "serving_rights",
    "serving_resources",
    "depends_on",
    "load_balancing",
)
_PLACES = {LaunchType.FARGATE: "ECS on Fargate", LaunchType.EC2: "ECS on EC2"}


def render(options: DeployOptions) -> Rendered:
    times = times_of(options, has_hook=False)
    is_fargate = options.launch_type is LaunchType.FARGATE
    limit = STOP_TIMEOUT_LIMITS_S[options.launch_type]
    instead = f", or --launch-type ec2 with up to {STOP_TIMEOUT_LIMITS_S[LaunchType.EC2]} s"
    require_fit(times, limit, _PLACES[options.launch_type], instead if is_fargate else "")
    values = common_values(options, times) | _own_values(options, times)
    values |= _serving_values(options, values)
    return Rendered({"ecs.yaml": filled("ecs.yaml", values)}, times)


def _own_values(options: DeployOptions, times: Times) -> dict[str, Value]:
    env = environment(options, times)
    ports = [options.port] if options.is_serving else []
    return {
        "launch_type": options.launch_type.upper(),
        "command": words(arguments(options, times, host=_ALL_INTERFACES)),
        "env": [f'- {{Name: {name}, Value: "{value}"}}' for name, value in env.items()],
        "ports": [f"- {{ContainerPort: {each}}}" for each in (*ports, options.health_port)],
        "health_check": words(["CMD", *health_check(options)]),
        "start_period_s": min(times.startup_s, _MOST_START_PERIOD_S),
        "deregistration_s": min(times.deregistration_s, _MOST_DEREGISTRATION_S),
    }


def _serving_values(options: DeployOptions, values: dict[str, Value]) -> dict[str, Value]:
    if not options.is_serving:
        return dict.fromkeys(_SERVING, ())
    return {
        "serving_parameters": [
            "# A secret whose text says who may send requests: AFL_SERVE_TOKENS; its ARN.",
            "TokensSecret: {Type: String}",
            'Vpc: {Type: "AWS::EC2::VPC::Id"}',
            "ListenerArn: {Type: String}",
            "ListenerPriority: {Type: Number, Default: 10}",
            'PathPatterns: {Type: CommaDelimitedList, Default: "/*"}',
        ],
        "serving_secrets": ["- {Name: AFL_SERVE_TOKENS, ValueFrom: {Ref: TokensSecret}}"],
        "serving_rights": ["- {Ref: TokensSecret}"],
        "serving_resources": filled("ecs-target.yaml", values).splitlines(),
        "depends_on": ["DependsOn: ListenerRule"],
        "load_balancing": [
            "# Until then a task that is not ready is not replaced.",
            f"HealthCheckGracePeriodSeconds: {values['startup_s']}",
            "LoadBalancers:",
            f'  - ContainerName: "{options.name}"',
            f"    ContainerPort: {options.port}",
            "    TargetGroupArn: {Ref: TargetGroup}",
        ],
    }
