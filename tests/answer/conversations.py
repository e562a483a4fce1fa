"""Follow-ups with the stand-alone question that each means, and a small bilingual corpus to search with both."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conversation:
    asked: tuple[str, ...]
    """Earlier questions, oldest first."""
    follow_up: str
    means: str
    answer: str = "…"
    """The last answer before the follow-up."""


CORPUS = (
    "The Falcon drone costs 900 euros and ships with two batteries.",
    "The Falcon drone has a warranty of three years, registered online.",
    "The Falcon drone flies for 31 minutes on one battery charge.",
    "The Heron drone costs 1400 euros and ships with a hard case.",
    "The Heron drone has a warranty of five years, no registration.",
    "The Heron drone flies for 46 minutes on one battery charge.",
    "To install the command line tool on Linux, run the apt package manager.",
    "To install the command line tool on Windows, download the msi package.",
    "To install the command line tool with Docker, pull the official image.",
    "To remove the command line tool from Linux, purge the apt package.",
    "Revenue in 2020 was 12 million euros, driven by licences.",
    "Revenue in 2021 was 17 million euros, driven by subscriptions.",
    "Revenue in 2022 fell to 15 million euros because exports declined.",
    "The annual report of 2023 was written by Maria Chen and published in April.",
    "Maria Chen studied physics in Geneva before she joined the finance team.",
    "Employees have 28 days of holiday; unused days expire in March.",
    "Part-time employees have holiday in proportion to their hours.",
    "The Basic plan costs 9 euros a month and allows three users.",
    "The Pro plan costs 29 euros a month and allows twenty users.",
    "The Enterprise plan is priced on request and allows any number of users.",
    "The capital of France is Paris, on the Seine.",
    "The capital of Germany is Berlin, on the Spree.",
    "Reset your password for the portal under Settings, Security.",
    "Version 2.3 of the gateway supports Python 3.10 and needs Redis 6.",
    "Version 2.4 of the gateway supports Python 3.12 and needs Redis 7.",
    "The canteen is open from eleven to two; on Fridays it closes at one.",
    "猎鹰无人机售价六千元，附带两块电池。",
    "猎鹰无人机保修三年，需要在线注册。",
    "猎鹰无人机单块电池可以飞行三十一分钟。",
    "苍鹭无人机售价九千元，附带硬质收纳箱。",
    "苍鹭无人机保修五年，不需要注册。",
    "苍鹭无人机单块电池可以飞行四十六分钟。",
    "在Linux上安装命令行工具，请使用apt软件包。",
    "在Windows上安装命令行工具，请下载msi安装包。",
    "在Docker中安装命令行工具，请拉取官方镜像。",
    "从Linux上卸载命令行工具，请清除apt软件包。",
    "2020年的营收为一千二百万元，主要来自许可证。",
    "2021年的营收为一千七百万元，主要来自订阅。",
    "2022年的营收下降到一千五百万元，原因是出口减少。",
    "2023年的年度报告由陈玛丽撰写，四月发布。",
    "陈玛丽毕业于日内瓦大学物理系，后来加入财务部。",
    "员工每年有二十八天年假，未用完的年假在三月失效。",
    "兼职员工的年假按工作时间比例计算。",
    "基础版套餐每月九元，最多三个用户。",
    "专业版套餐每月二十九元，最多二十个用户。",
    "企业版套餐价格面议，用户数量不限。",
    "法国的首都是巴黎，位于塞纳河畔。",
    "德国的首都是柏林，位于施普雷河畔。",
    "在设置的安全页面可以重置门户密码。",
    "自动扣款功能可以在账户页面开启，开启后每月一号扣款。",
    "关闭自动扣款功能需要输入支付密码。",
    "第一条规定要求所有访客登记。",
    "第二条规定禁止在机房饮食。",
    "食堂十一点到两点开放，周五一点关门。",
    # what the bare follow-ups would find
    "In 2021 the company moved; in 2022 it hired forty people.",
    "On Windows, sign in with your badge; on Fridays the office closes at four.",
    "Docker is discussed in the glossary.",
    "Germany and the Heron are mentioned in the appendix.",
    "Version 2.4 of the handbook was printed on recycled paper.",
    "It can be removed; they expire; it can fly. That did happen.",
    "She studied the cost of the second one, the first and the last one.",
    "2021年公司搬迁，2022年新招四十人。",
    "Windows上请使用工牌登录，周五办公室四点关门。",
    "Docker见术语表。",
    "德国与苍鹭见附录。",
    "它可以卸载，也可以关闭；这个功能见上。原因见下。",
    "她毕业了。第二个见上，第一个见下，最后一个没有。",
    "未用完的物料请退回仓库。保修期见合同。",
)

_PLANS_EN = "There are three plans: 1. the Basic plan 2. the Pro plan 3. the Enterprise plan"
_PLANS_ZH = "共有三种套餐：1. 基础版套餐 2. 专业版套餐 3. 企业版套餐"
_FALCON, _FALCON_ZH = "How much does the Falcon drone cost?", "猎鹰无人机多少钱？"
_INSTALL, _INSTALL_ZH = "How do I install the command line tool on Linux?", "如何在Linux上安装命令行工具？"

CONVERSATIONS = (
    # ellipsis with another value
    Conversation(("What was the revenue in 2020?",), "And in 2021?", "What was the revenue in 2021?"),
    Conversation(("What was the revenue in 2020?", "And in 2021?"), "And 2022?", "What was the revenue in 2022?"),
    Conversation(("What was the revenue in 2020?",), "What about 2022?", "What was the revenue in 2022?"),
    Conversation((_INSTALL,), "And on Windows?", "How do I install the command line tool on Windows?"),
    Conversation(
        (_INSTALL, "And on Windows?"), "And with Docker?", "How do I install the command line tool with Docker?"
    ),
    Conversation((_FALCON,), "And the Heron?", "How much does the Heron drone cost?"),
    Conversation((_FALCON,), "What about the Heron?", "How much does the Heron drone cost?"),
    Conversation(("What is the capital of France?",), "And Germany?", "What is the capital of Germany?"),
    Conversation(("What is the capital of France?",), "How about Germany?", "What is the capital of Germany?"),
    Conversation(
        ("Which Python does version 2.3 of the gateway support?",),
        "And version 2.4?",
        "Which Python does version 2.4 of the gateway support?",
    ),
    Conversation(("When does the canteen open?",), "And on Fridays?", "When does the canteen open on Fridays?"),
    Conversation(
        ("How many days of holiday do employees have?",),
        "And part-time employees?",
        "How many days of holiday do part-time employees have?",
    ),
    # pronouns
    Conversation((_FALCON,), "How long is its warranty?", "How long is the warranty of the Falcon drone?"),
    Conversation((_FALCON,), "How long can it fly on one charge?", "How long can the Falcon drone fly on one charge?"),
    Conversation((_INSTALL,), "How do I remove it?", "How do I remove the command line tool on Linux?"),
    Conversation(("Tell me about the Heron drone",), "How much does it cost?", "How much does the Heron drone cost?"),
    Conversation(
        ("How many days of holiday do employees have?",), "When do they expire?", "When do unused holiday days expire?"
    ),
    Conversation(
        ("Who wrote the annual report of 2023?",),
        "Where did she study?",
        "Where did Maria Chen study physics?",
        "Maria Chen wrote it [1].",
    ),
    Conversation(("What was the revenue in 2022?",), "Why did that happen?", "Why did revenue fall in 2022?"),
    # bare requests and bridging
    Conversation((_FALCON,), "And the warranty?", "What is the warranty of the Falcon drone?"),
    Conversation((_FALCON,), "How long is the warranty?", "How long is the warranty of the Falcon drone?"),
    Conversation(("What was the revenue in 2022?",), "Why?", "Why did revenue fall in 2022?"),
    Conversation(("How many users does the Pro plan allow?",), "And the cost?", "What does the Pro plan cost?"),
    # pointing into a list
    Conversation(("Which plans are there?",), "How much is the second one?", "How much is the Pro plan?", _PLANS_EN),
    Conversation(
        ("Which plans are there?",), "How many users has the first?", "How many users has the Basic plan?", _PLANS_EN
    ),
    Conversation(("Which plans are there?",), "And the last one?", "What does the Enterprise plan cost?", _PLANS_EN),
    # a new subject leaves the old one behind
    Conversation(
        (_FALCON,), "How do I reset my password for the portal?", "How do I reset my password for the portal?"
    ),
    Conversation((_INSTALL,), "What is the capital of Germany?", "What is the capital of Germany?"),
    Conversation((_FALCON,), "Is there a rule about when the canteen is open?", "When is the canteen open?"),
    Conversation(
        (_INSTALL,), "How many days of holiday do employees have that work here?", "How many days of holiday?"
    ),
    Conversation((_FALCON,), "And how do I reset my password for the portal?", "How do I reset my portal password?"),
    Conversation(
        ("What is the capital of France?",),
        "Who wrote the annual report of 2023 and when was it published?",
        "Who wrote the annual report of 2023?",
    ),
    # the same in Chinese
    Conversation(("2020年的营收是多少？",), "那2021年呢？", "2021年的营收是多少？"),
    Conversation(("2020年的营收是多少？", "那2021年呢？"), "2022年呢？", "2022年的营收是多少？"),
    Conversation(("2020年的营收是多少？",), "换成2022年呢？", "2022年的营收是多少？"),
    Conversation((_INSTALL_ZH,), "那在Windows上呢？", "如何在Windows上安装命令行工具？"),
    Conversation((_INSTALL_ZH, "那在Windows上呢？"), "在Docker中呢？", "如何在Docker中安装命令行工具？"),
    Conversation((_INSTALL_ZH,), "Windows上呢？", "如何在Windows上安装命令行工具？"),
    Conversation((_FALCON_ZH,), "苍鹭无人机呢？", "苍鹭无人机多少钱？"),
    Conversation((_FALCON_ZH,), "那苍鹭无人机呢？", "苍鹭无人机多少钱？"),
    Conversation(("法国的首都是哪里？",), "德国呢？", "德国的首都是哪里？"),
    Conversation(("法国的首都是哪里？",), "那么德国的呢？", "德国的首都是哪里？"),
    Conversation(("第一条规定是什么？",), "那第二条呢？", "第二条规定是什么？"),
    Conversation(("食堂几点开放？",), "周五呢？", "食堂周五几点开放？"),
    Conversation(("员工有多少天年假？",), "兼职员工呢？", "兼职员工有多少天年假？"),
    Conversation((_FALCON_ZH,), "它保修多久？", "猎鹰无人机保修多久？"),
    Conversation((_FALCON_ZH,), "它能飞行多少分钟？", "猎鹰无人机能飞行多少分钟？"),
    Conversation(("介绍一下苍鹭无人机",), "它的售价是多少？", "苍鹭无人机的售价是多少？"),
    Conversation((_INSTALL_ZH,), "怎么卸载它？", "如何从Linux上卸载命令行工具？"),
    Conversation(("如何开启自动扣款功能？",), "怎么关闭它？", "如何关闭自动扣款功能？"),
    Conversation(("如何开启自动扣款功能？",), "关闭这个功能需要什么？", "关闭自动扣款功能需要什么？"),
    Conversation(("谁写了2023年的年度报告？",), "她毕业于哪里？", "陈玛丽毕业于哪里？", "年度报告由陈玛丽撰写[1]。"),
    Conversation(("2022年的营收是多少？",), "为什么下降了？", "2022年的营收为什么下降？"),
    Conversation(("2022年的营收是多少？",), "原因是什么？", "2022年营收下降的原因是什么？"),
    Conversation(("员工每年有几天年假？",), "未用完的呢？", "未用完的年假什么时候失效？"),
    Conversation((_FALCON_ZH,), "保修期呢？", "猎鹰无人机的保修期是多久？"),
    Conversation((_FALCON_ZH,), "保修多久？", "猎鹰无人机保修多久？"),
    Conversation((_INSTALL_ZH,), "如何卸载？", "如何从Linux上卸载命令行工具？"),
    Conversation(("有哪些套餐？",), "第二个多少钱？", "专业版套餐多少钱？", _PLANS_ZH),
    Conversation(("有哪些套餐？",), "第一个最多几个用户？", "基础版套餐最多几个用户？", _PLANS_ZH),
    Conversation(("有哪些套餐？",), "那最后一个呢？", "企业版套餐价格是多少？", _PLANS_ZH),
    Conversation((_FALCON_ZH,), "如何重置门户网站的密码？", "如何重置门户密码？"),
    Conversation((_INSTALL_ZH,), "德国的首都是哪个城市？", "德国的首都是哪个城市？"),
    Conversation((_INSTALL_ZH,), "员工每年应该有多少天年假？", "员工每年有多少天年假？"),
    Conversation((_FALCON_ZH,), "如果忘记了门户的密码怎么办？", "如何重置门户密码？"),
    Conversation((_FALCON_ZH,), "谁撰写了2023年的年度报告？", "谁撰写了2023年的年度报告？"),
)
